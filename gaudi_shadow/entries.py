"""One entry for each fix, as `check --json` prints it; docs/cli.md describes the fields."""

from __future__ import annotations

from gaudi_shadow import catalog
from gaudi_shadow.decide import ASK
from gaudi_shadow.outcome import DISABLED, NOT_APPLIED, Decision, FixOutcome
from gaudi_shadow.switches import DISABLE

NEWER = "look for a newer gaudi-shadow; 'gaudi-shadow report' prints what a bug report needs"


def entries(decision: Decision) -> list[dict[str, str]]:
    """The fixes of one module."""
    return [
        {
            "fix": outcome.fix,
            "state": outcome.state,
            "reason": outcome.reason,
            "todo": _todo(outcome),
            "module": decision.module,
            "function": outcome.function,
            "file": decision.file,
            "overlay": decision.overlay,
            "note": decision.note,
        }
        for outcome in decision.fixes
    ]


def _todo(outcome: FixOutcome) -> str:
    """What is left to do for somebody who has asked `check` already."""
    if outcome.state == DISABLED:
        return f"take it out of {DISABLE}"
    return NEWER if outcome.todo == ASK else outcome.todo


def refused(module: str, file: str, state: str, reason: str, todo: str) -> Decision:
    """The decision about a module that could not even be looked at."""
    concerned = [fix for fix in catalog.known_fixes().values() if fix.module == module]
    outcomes = tuple(FixOutcome(fix.name, fix.function, state, reason, todo) for fix in concerned)
    return Decision(module, file, "unknown", "none", "", outcomes)


def all_refused(reason: str, todo: str) -> list[dict[str, str]]:
    """Every fix not applied for one reason; a single entry "every fix" when not even their names can be read."""
    modules = dict.fromkeys(fix.module for fix in catalog.known_fixes().values())
    found = [entry for module in modules for entry in entries(refused(module, "", NOT_APPLIED, reason, todo))]
    return found or [unknowable("every fix", reason, todo)]


def unknowable(fix: str, reason: str, todo: str) -> dict[str, str]:
    """A fix of which nothing but the name can be said, because our manifests cannot be read."""
    outcome = FixOutcome(fix, "?", NOT_APPLIED, reason, todo)
    return entries(Decision("?", "", "unknown", "none", "", (outcome,)))[0]
