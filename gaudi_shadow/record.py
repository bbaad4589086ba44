"""What happened in this process: one entry for each target, read by `gaudi_shadow.status()` and the vLLM plugin."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import gaudi_shadow
from gaudi_shadow import catalog, counters
from gaudi_shadow.finder import TARGETS, installed_finder, is_switched_off
from gaudi_shadow.messages import warn_once
from gaudi_shadow.outcome import APPLIED, NOT_APPLIED, Decision, FixOutcome

_entries: dict[str, tuple[Decision, str, str]] = {}

TOO_LATE = "it was imported before the hook was installed and is not executed again"
SWITCHED_OFF = "VLLM_GAUDI_SHADOW switches it off"
ABSENT = "our finder was not on sys.meta_path when it was imported, or was removed from there"
BYPASSED = "it was imported without asking our finder: another finder answered first"


def fix_names() -> list[str]:
    """The names of all fixes."""
    return list(catalog.known_fixes())


def note(decision: Decision, state: str, reason: str = "") -> None:
    """Put a target's state on record: "patched", "stock", "executing" or "failed"."""
    _entries[decision.module] = (decision, state, reason)


def entry(module: str) -> tuple[Decision, str, str] | None:
    """What was noted about a target last: decision, state, reason; None when nothing was."""
    return _entries.get(module)


def why_stock(module: str) -> str:
    """Why a target is imported and yet not on record."""
    finder = installed_finder()
    if is_switched_off():
        return SWITCHED_OFF
    if finder is None:
        return ABSENT
    return TOO_LATE if module in finder.too_late else BYPASSED


def note_too_late(modules: tuple[str, ...]) -> None:
    """Say on stderr that targets were imported before the hook."""
    for module in modules:
        warn_once(f"{module} stays stock: {TOO_LATE}; install the hook at interpreter start (see docs/activation.md)")


def refused(spec: ModuleSpec, reason: str, todo: str) -> Decision:
    """The decision to run a module stock for one reason, whatever the fix."""
    outcomes = tuple(
        FixOutcome(fix.name, fix.function, NOT_APPLIED, reason, todo)
        for fix in catalog.known_fixes().values()
        if fix.module == spec.name
    ) or (FixOutcome("every fix", "?", NOT_APPLIED, reason, todo),)
    return Decision(spec.name, spec.origin or "", "unknown", "none", "", outcomes)


def internal_fault(spec: ModuleSpec, error: Exception) -> Decision:
    """The decision to run a module stock because we ourselves failed."""
    reason = f"internal error in gaudi-shadow: {type(error).__name__}: {error}"
    return refused(spec, reason, "reinstall gaudi-shadow; if it comes again, file what 'gaudi-shadow report' prints")


class WrongValue(ValueError):
    """A fix's own variable has a value that it cannot use."""


def fix_module(fix: str) -> ModuleType:
    """The module in gaudi_shadow/fixes/ that belongs to a fix.

    Raises:
        ImportError: it is missing.
    """
    return importlib.import_module("gaudi_shadow.fixes." + fix.replace("-", "_"))


def configured(decision: Decision) -> Decision:
    """Tell each fix of a module whether it is on, and put what it answers ("applied but idle: ...") into its reason.

    Raises:
        WrongValue: a fix's own variable has a value that it cannot use.
    """
    if decision.code is None:
        return decision
    on = {outcome.fix for outcome in decision.applied}
    try:
        answers = {outcome.fix: fix_module(outcome.fix).configure(outcome.fix in on) for outcome in decision.fixes}
    except ValueError as error:
        raise WrongValue(str(error)) from None
    fixes = tuple(
        outcome._replace(reason=answers[outcome.fix]) if outcome.state == APPLIED else outcome
        for outcome in decision.fixes
    )
    return decision._replace(fixes=fixes)


def describe() -> dict[str, Any]:
    """The report of `gaudi_shadow.status()`; see there."""
    finder = installed_finder()
    active = finder is not None and not is_switched_off()
    hook: dict[str, Any] = {"active": active, "route": finder.route if finder is not None else None}
    if not active:
        hook["reason"] = SWITCHED_OFF if is_switched_off() else "it was not installed"
    modules = {name: _describe_module(name) for name in sorted(TARGETS)}
    return {
        "version": gaudi_shadow.__version__,
        "hook": hook,
        "release": next((entry["release"] for entry in modules.values() if "release" in entry), None),
        "modules": modules,
        "counters": counters.snapshot(),
    }


def _describe_module(name: str) -> dict[str, Any]:
    if name not in _entries:
        if name not in sys.modules:
            return {"state": "not imported", "fixes": {}}
        return {"state": "stock", "reason": why_stock(name), "fixes": {}}
    decision, state, reason = _entries[name]
    return {
        "state": state,
        "reason": reason,
        "file": decision.file,
        "release": decision.version,
        "overlay": decision.overlay,
        "note": decision.note,
        "fixes": {
            outcome.fix: {"state": outcome.state, "reason": outcome.reason, "todo": outcome.todo}
            for outcome in decision.fixes
        },
    }
