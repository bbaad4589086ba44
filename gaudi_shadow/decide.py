"""Decide what becomes of a target module: which overlay fits, which fixes are grafted. Executes nothing of it."""

from __future__ import annotations

from types import CodeType

from gaudi_shadow import catalog
from gaudi_shadow.fingerprint import UnreadableBlock
from gaudi_shadow.graft import CannotGraft, graft, unknown_globals
from gaudi_shadow.manifest import BrokenManifest, Fix, Overlay
from gaudi_shadow.outcome import (
    APPLIED,
    DISABLED,
    DRIFTED,
    FAILURES,
    NOT_APPLIED,
    NOT_NEEDED,
    Decision,
    FixOutcome,
    with_state,
)
from gaudi_shadow.release import by_closeness, release_at
from gaudi_shadow.stock import StockFunction, StockModule

REINSTALL = "reinstall gaudi-shadow"
ASK = "run 'gaudi-shadow check', look for a newer gaudi-shadow, or file what 'gaudi-shadow report' prints"
SEE_RELEASES = "'gaudi-shadow releases' lists the releases that are patched"
RECOMPILE = "remove the stale .pyc files beside it, or reinstall vllm-gaudi"


def decide(stock: StockModule, disabled: frozenset[str] = frozenset()) -> Decision:
    """Find the overlay that fits and graft it; what fails leaves the module stock, with the reason.

    Never raises for what is wrong with the stock module or with a file of ours: that is in the outcomes.
    """
    version = release_at(stock.root, stock.read).version
    try:
        names = by_closeness(version, catalog.overlay_names())
    except BrokenManifest as error:
        return _all_refused(stock, version, "none", str(error))
    first: Decision | None = None
    for name in names:
        try:
            decision = _judged(catalog.overlay(name), stock, version)
        except BrokenManifest as error:
            decision = _all_refused(stock, version, name, str(error))
        if not decision.failures:
            return _grafted(_without(decision, disabled), catalog.overlay(name), stock)
        first = first or decision
    assert first is not None
    return _hold_back(_without(first, disabled))


def _all_refused(stock: StockModule, version: str, overlay: str, reason: str) -> Decision:
    concerned = [fix for fix in catalog.known_fixes().values() if fix.module == stock.name]
    outcomes = [FixOutcome(fix.name, fix.function, NOT_APPLIED, reason, REINSTALL) for fix in concerned]
    outcomes = outcomes or [FixOutcome("every fix", "?", NOT_APPLIED, reason, REINSTALL)]
    return Decision(stock.name, stock.file, version, overlay, "", tuple(outcomes))


def _judged(overlay: Overlay, stock: StockModule, version: str) -> Decision:
    """What each fix of an overlay finds in the module, switched off or not: that tells whether the overlay fits."""
    fixes = overlay.fixes_of(stock.name)
    outcomes = [judge(fix, stock) for fix in fixes]
    outcomes += [
        FixOutcome(fix.name, fix.function, NOT_NEEDED, f"releases like {overlay.release} do not have this fault")
        for fix in catalog.known_fixes().values()
        if fix.module == stock.name and fix.name not in overlay.fixes
    ]
    named = _stating(overlay, fixes)
    note = "" if named.confirmed else named.note
    return Decision(stock.name, stock.file, version, named.release, note, tuple(outcomes))


def _stating(overlay: Overlay, fixes: list[Fix]) -> Overlay:
    """The overlay itself, or the base that it has all about a module's fixes from: the files are that one's."""
    names = {fix.name for fix in fixes}
    return next((each for each in map(catalog.overlay, overlay.lineage) if names & each.stated), overlay)


def judge(fix: Fix, stock: StockModule) -> FixOutcome:
    """Whether the stock function is one that the fix was written against, or one that does not have the fault."""

    def outcome(state: str, reason: str = "", todo: str = "") -> FixOutcome:
        return FixOutcome(fix.name, fix.function, state, reason, todo)

    if stock.code is None or stock.source is None:
        missing = "code object" if stock.code is None else "source"
        return outcome(NOT_APPLIED, f"no {missing} to compare: the module comes compiled", "install it from source")
    try:
        function = stock.function(fix.function)
    except CannotGraft as error:
        return outcome(DRIFTED, str(error), ASK)
    except UnreadableBlock:
        return outcome(NOT_APPLIED, f"bytecode does not match source at {fix.function}", RECOMPILE)
    mark = _fixed_mark(fix, function)
    if mark:
        return outcome(NOT_NEEDED, f"{fix.function} of this build does not have the fault: {mark}")
    if function.fingerprint not in fix.fingerprints:
        found, known = function.fingerprint[:19], ", ".join(each[:19] for each in fix.fingerprints) or "none"
        for seen in fix.seen:
            if seen.fingerprint == function.fingerprint and seen.note:
                reason = f"{fix.function} is that of {', '.join(seen.releases)} (found {found}): {seen.note}"
                return outcome(DRIFTED, reason, SEE_RELEASES)
        return outcome(DRIFTED, f"{fix.function} has changed (found {found}, known {known})", ASK)
    if not function.bytecode_matches:
        return outcome(NOT_APPLIED, f"bytecode does not match source at {fix.function}", RECOMPILE)
    return outcome(APPLIED)


def _fixed_mark(fix: Fix, function: StockFunction) -> str:
    """By what a function that needs no fix is known as such; empty when it is not."""
    if function.fingerprint in fix.fixed_fingerprints:
        return f"known by its fingerprint {function.fingerprint[:19]}"
    if not any(mark in function.text for mark in fix.fixed_markers):
        return ""
    # What a string says is no repair, and a name that the repair uses is none while the fault still stands beside it.
    spoken = function.text_without_strings
    if any(mark in spoken for mark in fix.fault_markers):
        return ""
    return next((f"known by its marker {mark!r}" for mark in fix.fixed_markers if mark in spoken), "")


def _without(decision: Decision, disabled: frozenset[str]) -> Decision:
    fixes = tuple(
        outcome._replace(state=DISABLED, reason="switched off by VLLM_GAUDI_SHADOW_DISABLE", todo="")
        if outcome.fix in disabled and outcome.state in (APPLIED, *FAILURES)
        else outcome
        for outcome in decision.fixes
    )
    return decision._replace(fixes=fixes)


def _hold_back(decision: Decision) -> Decision:
    failed = ", ".join(outcome.fix for outcome in decision.failures)
    return with_state(decision, NOT_APPLIED, f"held back with {failed}: a module is patched whole or not at all", ASK)


def _grafted(decision: Decision, overlay: Overlay, stock: StockModule) -> Decision:
    functions: dict[str, CodeType] = {}
    try:
        for qualname in sorted({outcome.function for outcome in decision.applied}):
            functions[qualname] = catalog.overlay_function(overlay, stock.name, qualname)
        if not functions:
            return decision
        assert stock.code is not None
        code = graft(stock.code, functions)
        for qualname, function in functions.items():
            unknown = ", ".join(unknown_globals(stock.code, function))
            if unknown:
                reason = f"{qualname} is as it was, but the module no longer defines {unknown}, which ours reads"
                return with_state(decision, DRIFTED, reason, ASK)
    except (catalog.BrokenOverlay, CannotGraft, SyntaxError) as error:
        return with_state(decision, NOT_APPLIED, str(error), REINSTALL)
    return decision._replace(code=code, functions=tuple(functions.items()))
