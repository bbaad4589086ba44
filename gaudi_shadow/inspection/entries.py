"""One entry for each fix, as `check --json` prints it; docs/cli.md describes the fields."""

from __future__ import annotations

from gaudi_shadow.outcome import DISABLED, NOT_APPLIED, Decision, FixOutcome
from gaudi_shadow.switches import DISABLE


def entries(decision: Decision) -> list[dict[str, str]]:
    """The fixes of one module."""
    return [
        {
            "fix": outcome.fix,
            "state": outcome.state,
            "reason": outcome.reason,
            "todo": f"take it out of {DISABLE}" if outcome.state == DISABLED else outcome.todo,
            "module": decision.module,
            "function": outcome.function,
            "file": decision.file,
            "overlay": decision.overlay,
            "note": decision.note,
        }
        for outcome in decision.fixes
    ]


def refused(module: str, file: str, state: str, reason: str, todo: str) -> Decision:
    """The decision about a module that could not even be looked at."""
    from gaudi_shadow import catalog

    concerned = [fix for fix in catalog.known_fixes().values() if fix.module == module]
    outcomes = tuple(FixOutcome(fix.name, fix.function, state, reason, todo) for fix in concerned)
    return Decision(module, file, "unknown", "none", "", outcomes)


def all_refused(modules: list[str], reason: str, todo: str) -> list[dict[str, str]]:
    """Every fix not applied for one reason; a single entry "every fix" when not even their names can be read."""
    try:
        found = [entry for module in modules for entry in entries(refused(module, "", NOT_APPLIED, reason, todo))]
    except Exception:  # what knows the fixes' names may be the part that is damaged
        found = []
    return found or [unknowable("every fix", reason, todo)]


def unknowable(fix: str, reason: str, todo: str = "reinstall gaudi-shadow") -> dict[str, str]:
    """A fix of which nothing but the name can be said, because our own parts are damaged."""
    outcome = FixOutcome(fix, "?", NOT_APPLIED, reason, todo)
    return entries(Decision("?", "", "unknown", "none", "", (outcome,)))[0]
