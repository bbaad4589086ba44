"""One line about the fixes in this process, for vLLM's log."""

from __future__ import annotations

import sys
from typing import NamedTuple

import gaudi_shadow
from gaudi_shadow import locate, record
from gaudi_shadow.decide import decide
from gaudi_shadow.finder import TARGETS, installed_finder
from gaudi_shadow.loader import with_parts_loaded
from gaudi_shadow.outcome import APPLIED, FAILURES, Decision, FixOutcome
from gaudi_shadow.stock import StockModule
from gaudi_shadow.switches import disabled_fixes

READY = "patched on import"
HOOK_EARLIER = "make the hook active at interpreter start (see docs/activation.md)"


class _Account(NamedTuple):
    """What is to be said about one target.

    Attributes:
        text: a few words, and what to do when something is wrong.
        is_fault: whether a fix that should be there is not.
        decision: what it is about, or None when nothing is known.
    """

    text: str
    is_fault: bool
    decision: Decision | None = None


def process_line() -> tuple[str, bool]:
    """Say what became of each target, or what will become of it; nothing of vllm_gaudi is executed.

    Returns:
        The line, and whether a fix that should be there is not.

    Raises:
        ValueError: a fix's own variable has a value that it cannot use.
    """
    finder = installed_finder()
    accounts = [_account(name) for name in sorted(TARGETS)]
    decisions = [account.decision for account in accounts if account.decision is not None]
    head = f"gaudi-shadow {gaudi_shadow.__version__} (hook by {finder.route if finder else 'nothing'})"
    if decisions:
        overlays = ", ".join(dict.fromkeys(decision.overlay for decision in decisions))
        head += f", vllm-gaudi {decisions[0].version}, overlay {overlays}"
    texts = dict.fromkeys(account.text for account in accounts)
    return f"{head}: {'; '.join(texts)}", any(account.is_fault for account in accounts)


def _account(name: str) -> _Account:
    on_record = record.entry(name)
    if on_record is not None:
        return _account_of(*on_record)
    if name in sys.modules:
        return _Account(f"{name} stays stock: {record.why_stock(name)}; {HOOK_EARLIER}", True)
    try:
        decision = _foreseen(name)
    except locate.NotFound as error:
        has_release = "vllm_gaudi" in sys.modules
        return _Account(f"{error}; run 'gaudi-shadow check'" if has_release else "vllm_gaudi is not here", has_release)
    return _account_of(record.configured(decision), READY, "")


def _foreseen(name: str) -> Decision:
    """What the loader will make of a target that is not imported yet.

    Raises:
        locate.NotFound: it is not there.
    """
    with locate.looking_in(None):
        spec = locate.find_target(name)
    try:
        stock = StockModule.from_loader(spec.loader, name, spec.origin or "")
        return with_parts_loaded(decide(stock, disabled_fixes()))
    except Exception as error:  # a fault of ours stops no engine, unless strict mode is on
        return record.internal_fault(spec, error)


def _account_of(decision: Decision, state: str, reason: str) -> _Account:
    fixes = ", ".join(_words(outcome) for outcome in decision.fixes)
    state = "stays stock" if decision.code is None else state
    text = f"{decision.module} {state}{f' ({reason})' if reason else ''}: {fixes}"
    return _Account(text, bool(decision.failures) or state == "failed", decision)


def _words(outcome: FixOutcome) -> str:
    if outcome.state == APPLIED:
        return f"{outcome.fix} {outcome.reason or APPLIED}"
    if outcome.state not in FAILURES:
        return f"{outcome.fix} {outcome.state}"
    return f"{outcome.fix} {outcome.state}: {outcome.reason}" + (f" ({outcome.todo})" if outcome.todo else "")
