"""What came of a plan: a row for each step, held against the reference's tokens or against the death that is due."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from asking import ENGINE_MARK, key_of

TOLERANCE = (
    1e-3  # of a log-probability: float32 in another batch differs by some 1e-5, an exchanged picture by 0.1 and more
)
DEVMEM, COMPILE = "PT_DEVMEM Allocation failed", "synStatus 26"
COVERED = r"Expected multimodal embeddings.*NoneType|'NoneType' object has no attribute"
# Lines as `environments.LOG_PREFIX` makes them; an installed copy's plugin tells the route as well.
PATCHED_LINE = re.compile(r"pid=(\d+) (\S+) .*gaudi-shadow: \S+ patched by overlay")
ROUTE_WORDS = re.compile(r"gaudi-shadow \S+ \(hook by (\w+)\)")


class Row(NamedTuple):
    """One line of the result.

    Attributes:
        run: which run: route and processes.
        engine: the plan's engine.
        step: the step in it.
        result: what happened, in words.
        is_right: whether that is what should have happened.
    """

    run: str
    engine: str
    step: str
    result: str
    is_right: bool


def answers_by_request(plan: list[dict[str, Any]], report: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The answers of a report: (family, request) -> answer."""
    found = {}
    for engine, got in zip(plan, report["engines"], strict=True):
        for step, result in zip(engine["steps"], got["steps"], strict=False):
            how = "chat" if step["how"] == "chat" else ""
            for request, answer in zip(step["requests"], result.get("answers", []), strict=False):
                found[engine["family"] + how, key_of(request)] = answer
    return found


def compare(answers: list[Any], wanted: list[Any]) -> tuple[str, bool]:
    """How many answers have the wanted tokens, and by how much the log-probabilities differ at most."""
    pairs = [(answer, want) for answer, want in zip(answers, wanted, strict=True) if answer is not None]
    same = sum(answer["tokens"] == want["tokens"] for answer, want in pairs)
    apart = max(
        (abs(a - b) for answer, want in pairs for a, b in zip(answer["logprobs"], want["logprobs"], strict=True)),
        default=0.0,
    )
    aborted = len(answers) - len(pairs)
    text = f"{same} of {len(pairs)} answers have the reference's tokens, log-probabilities within {apart:.0e}"
    return text + (f", {aborted} aborted" if aborted else ""), same == len(pairs) > 0 and apart <= TOLERANCE


def _seen(step: dict[str, Any]) -> str:
    peak = step.get("card_peak")
    return f"{step['seconds']:.1f} s" + (f", card's peak {peak / 2**20:.1f} MiB" if peak else "")


def rows(
    run: str, plan: list[dict[str, Any]], report: dict[str, Any], reference: dict[tuple[str, str], Any], deaths: Any
) -> Iterator[Row]:
    """A row for each step of a run.

    Args:
        deaths: (engine, step) -> a regular expression that the error or the log must match, for the steps that must
            kill the engine.
    """
    for engine, got in zip(plan, report["engines"], strict=True):
        for step, result in zip(engine["steps"], got["steps"], strict=False):
            due = deaths.get((engine["name"], step["name"]))
            if "error" in result:
                yield _death(run, engine["name"], result, due, _log_of(report["log"], engine["name"]))
                break
            wanted = [reference[engine["family"], key_of(request)] for request in step["requests"]]
            text, is_right = compare(result["answers"], wanted)
            text = f"{text} ({_seen(result)})"
            yield Row(run, engine["name"], step["name"], text, is_right and due is None)


def _log_of(log: str, engine: str) -> str:
    return log.rpartition(f"{ENGINE_MARK}{engine}\n")[2].partition(ENGINE_MARK)[0]


def _death(run: str, engine: str, result: dict[str, Any], due: str | None, log: str) -> Row:
    """The caller's error, and the cause: the innermost error, or the log's line where the engine is another process."""
    lines = result["error"]
    cause = next((line for line in lines if due and re.search(due, line)), None)
    in_log = next((line.strip() for line in log.splitlines() if due and re.search(due, line)), None)
    reason = cause or in_log
    text = f"dies: {lines[0]}" + (f" [{reason}]" if reason and reason != lines[0] else "")
    return Row(run, engine, result["name"], text, reason is not None)


def sensitivity(wanted: list[dict[str, Any]], base: dict[str, Any]) -> tuple[str, bool]:
    """In how many answers another picture in one place changes the tokens and the log-probabilities."""
    tokens = sum(answer["tokens"] != base["tokens"] for answer in wanted)
    apart = [max(abs(a - b) for a, b in zip(answer["logprobs"], base["logprobs"], strict=True)) for answer in wanted]
    text = f"another picture in one of {len(wanted)} places changes the tokens in {tokens}, "
    text += f"and a log-probability by {min(apart):.2g} at least"
    return text, min(apart) > 10 * TOLERANCE


def reporters(log: str) -> tuple[str, int]:
    """Which processes said in the log that they patched a target, by name, and how many they are."""
    found = {match[1]: match[2] for match in PATCHED_LINE.finditer(log)}
    names = Counter(found.values())
    text = ", ".join(f"{count} {name}" for name, count in sorted(names.items())) or "nobody"
    routes = sorted(set(ROUTE_WORDS.findall(log)))
    return text + (f" (hook by {', '.join(routes)})" if routes else ""), len(found)
