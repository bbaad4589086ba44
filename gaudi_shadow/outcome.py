"""What can become of a fix, in words that `status`, `check` and the log share."""

from types import CodeType
from typing import NamedTuple

APPLIED = "applied"
NOT_NEEDED = "not needed"
DISABLED = "disabled"
NOT_APPLIED = "not applied"
DRIFTED = "drifted"

FAILURES = (NOT_APPLIED, DRIFTED)


class FixOutcome(NamedTuple):
    """What became of one fix in one module.

    Attributes:
        fix: its name.
        function: the qualified name of the function that it changes.
        state: one of the words above.
        reason: why, when the state is not "applied"; or what is to be known when it is. May be empty.
        todo: what the reader can do about it. May be empty.
    """

    fix: str
    function: str
    state: str
    reason: str = ""
    todo: str = ""


class Decision(NamedTuple):
    """What is to be done with one target module.

    Attributes:
        module, file: the target, and the stock file it comes from.
        version: vllm-gaudi's version as found, or "unknown".
        overlay: the overlay that fits ("v0.26.0"), or the one that was tried first when none does.
        note: what the overlay rests on when its release's own tree has not been read; else empty.
        fixes: one outcome for every fix that concerns the module.
        code: the full patched module, or None when the stock module is to run.
        functions: the overlay functions in it, by qualified name.
    """

    module: str
    file: str
    version: str
    overlay: str
    note: str
    fixes: tuple[FixOutcome, ...]
    code: CodeType | None = None
    functions: tuple[tuple[str, CodeType], ...] = ()

    @property
    def failures(self) -> list[FixOutcome]:
        """The fixes that should be in place and are not."""
        return [outcome for outcome in self.fixes if outcome.state in FAILURES]

    @property
    def applied(self) -> list[FixOutcome]:
        """The fixes that are in `code`."""
        return [outcome for outcome in self.fixes if outcome.state == APPLIED]


def failure_line(decision: Decision) -> str:
    """One line: which fixes are missing from which module and file, why, and what to do."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for outcome in decision.failures:
        reasons.setdefault((outcome.state, outcome.reason, outcome.todo), []).append(outcome.fix)
    parts = [
        f"{', '.join(names)} {state}: {reason}" + (f"; {todo}" if todo else "")
        for (state, reason, todo), names in reasons.items()
    ]
    return f"{decision.module} ({decision.file}) stays stock: " + " | ".join(parts)


def applied_line(decision: Decision) -> str:
    """One line: which fixes are in which module, and what is to be known about each."""
    parts = [outcome.fix + (f" {outcome.reason}" if outcome.reason else "") for outcome in decision.applied]
    return f"{decision.module} patched by overlay {decision.overlay}: {', '.join(parts)}"


def with_state(decision: Decision, state: str, reason: str, todo: str) -> Decision:
    """The decision to run the module stock, because what was about to be applied cannot be."""
    fixes = tuple(
        outcome._replace(state=state, reason=reason, todo=todo) if outcome.state == APPLIED else outcome
        for outcome in decision.fixes
    )
    return decision._replace(fixes=fixes, code=None, functions=())
