"""Decide what becomes of a target module: which overlay fits it, and which fixes are grafted. Executes nothing of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType

from gaudi_shadow import catalog
from gaudi_shadow.fingerprint import UnreadableBlock, canonical_text, fingerprint, function_block, plain_lines
from gaudi_shadow.graft import CannotGraft, find_code, graft
from gaudi_shadow.manifest import BrokenManifest, Fix, Overlay
from gaudi_shadow.match import compile_alone, definition_disagreement, is_same_code
from gaudi_shadow.outcome import (
    APPLIED,
    DISABLED,
    DRIFTED,
    NOT_APPLIED,
    NOT_NEEDED,
    Decision,
    FixOutcome,
    with_state,
)
from gaudi_shadow.release import by_closeness, release_at

REINSTALL = "reinstall gaudi-shadow"
ASK = "run 'gaudi-shadow check', then look for a newer gaudi-shadow"
RECOMPILE = "remove the stale .pyc files beside it, or reinstall vllm-gaudi"


@dataclass(frozen=True)
class StockModule:
    """A target as its stock loader gives it, not executed.

    Attributes:
        name: the full module name.
        file: where it comes from; for messages and to find the release.
        code: the stock loader's code object.
        source: the stock loader's text, or None when it has none.
        read: the stock loader's `get_data`, or a function of the same kind.
    """

    name: str
    file: str
    code: CodeType | None
    source: str | None
    read: Callable[[str], bytes]

    @property
    def root(self) -> str:
        """The folder or zip file that holds the top-level package."""
        root = self.file
        for _ in self.name.split("."):
            root = os.path.dirname(root)
        return root


def decide(stock: StockModule, disabled: frozenset[str] = frozenset()) -> Decision:
    """Find the overlay that fits and graft it; what fails leaves the module stock, with the reason.

    Never raises for what is wrong with the stock module or with a file of ours: that is in the outcomes.
    """
    release = release_at(stock.root, stock.read)
    first_failure: Decision | None = None
    try:
        names = by_closeness(release.version, catalog.overlay_names())
    except BrokenManifest as error:
        return _all_refused(stock, release.version, "none", str(error))
    for name in names:
        try:
            overlay = catalog.overlay(name)
        except BrokenManifest as error:
            decision = _all_refused(stock, release.version, name, str(error))
        else:
            decision = _try(overlay, stock, release.version, disabled)
        if not decision.failures:
            return decision
        first_failure = first_failure or decision
    assert first_failure is not None
    return first_failure


def _all_refused(stock: StockModule, version: str, overlay: str, reason: str) -> Decision:
    concerned = [fix for fix in catalog.known_fixes().values() if fix.module == stock.name]
    outcomes = [FixOutcome(fix.name, fix.function, NOT_APPLIED, reason, REINSTALL) for fix in concerned]
    outcomes = outcomes or [FixOutcome("every fix", "?", NOT_APPLIED, reason, REINSTALL)]
    return Decision(stock.name, stock.file, version, overlay, "", tuple(outcomes))


def _try(overlay: Overlay, stock: StockModule, version: str, disabled: frozenset[str]) -> Decision:
    fixes = overlay.fixes_of(stock.name)
    lines = plain_lines(stock.source) if stock.source is not None else None
    outcomes = [
        FixOutcome(fix.name, fix.function, DISABLED, "switched off by VLLM_GAUDI_SHADOW_DISABLE")
        if fix.name in disabled
        else _judge(fix, stock, lines)
        for fix in fixes
    ]
    outcomes += [
        FixOutcome(fix.name, fix.function, NOT_NEEDED, f"releases like {overlay.release} do not have this fault")
        for fix in catalog.known_fixes().values()
        if fix.module == stock.name and fix.name not in overlay.fixes
    ]
    decision = Decision(
        stock.name, stock.file, version, overlay.release, "" if overlay.confirmed else overlay.note, tuple(outcomes)
    )
    wanted = {outcome.function for outcome in decision.applied}
    if decision.failures:
        return _hold_back(decision)
    if not wanted:
        return decision
    return _grafted(decision, overlay, stock, lines or [], sorted(wanted))


def _judge(fix: Fix, stock: StockModule, lines: list[str] | None) -> FixOutcome:
    """Whether the stock function is the one that the fix was written against."""

    def outcome(state: str, reason: str = "", todo: str = "") -> FixOutcome:
        return FixOutcome(fix.name, fix.function, state, reason, todo)

    if stock.code is None or lines is None:
        missing = "code object" if stock.code is None else "source"
        return outcome(NOT_APPLIED, f"no {missing} to compare: the module comes compiled", "install it from source")
    try:
        code = find_code(stock.code, fix.function)
    except CannotGraft as error:
        return outcome(DRIFTED, str(error), ASK)
    try:
        block = function_block(lines, code.co_firstlineno)
        found = fingerprint(block)
    except UnreadableBlock:
        return outcome(NOT_APPLIED, f"bytecode does not match source at {fix.function}", RECOMPILE)
    if found in fix.fixed_fingerprints or any(marker in canonical_text(block) for marker in fix.fixed_markers):
        return outcome(NOT_NEEDED, "this build has its own fix (known by fingerprint or marker)")
    if found not in fix.fingerprints:
        known = ", ".join(each[:19] for each in fix.fingerprints)
        return outcome(DRIFTED, f"{fix.function} has changed (found {found[:19]}, known {known})", ASK)
    try:
        alone = compile_alone(block, fix.function, code.co_firstlineno, stock.code.co_flags)
        same = is_same_code(find_code(alone, fix.function), code)
    except (SyntaxError, ValueError):
        same = False
    if not same:
        return outcome(NOT_APPLIED, f"bytecode does not match source at {fix.function}", RECOMPILE)
    return outcome(APPLIED)


def _hold_back(decision: Decision) -> Decision:
    failed = ", ".join(outcome.fix for outcome in decision.failures)
    return with_state(decision, NOT_APPLIED, f"held back with {failed}: a module is patched whole or not at all", ASK)


def _grafted(
    decision: Decision, overlay: Overlay, stock: StockModule, lines: list[str], wanted: list[str]
) -> Decision:
    assert stock.code is not None
    functions: dict[str, CodeType] = {}
    try:
        for qualname in wanted:
            ours = catalog.overlay_function(overlay, stock.name, qualname)
            theirs = function_block(lines, find_code(stock.code, qualname).co_firstlineno)
            reason = definition_disagreement(theirs, ours.block)
            if reason:
                raise CannotGraft(f"{qualname}: {reason}")
            functions[qualname] = ours.code
        code = graft(stock.code, functions)
    except (catalog.BrokenOverlay, CannotGraft) as error:
        return with_state(decision, NOT_APPLIED, str(error), REINSTALL)
    return replace(decision, code=code, functions=tuple(functions.items()))
