"""The report of `check` and `status` as text: plain, aligned, one fact a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gaudi_shadow.messages import printable

MEANINGS = ("each fix is applied or not needed", "a fix is not applied", "a fix's source has drifted")


def report_text(report: dict[str, Any]) -> str:
    """What `checking.make_report` gives, for people."""
    blocks = [_aligned(_surroundings(report))]
    for entry in report["fixes"]:
        blocks.append(printable(f"{entry['fix']}: {entry['state']}") + "\n" + _aligned(_about(entry), indent="  "))
    code = report["exit_code"]
    blocks.append(f"exit code {code}: {MEANINGS[code]}")
    return "\n\n".join(blocks)


def _surroundings(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "gaudi-shadow", report["version"]
    yield "python", f"{report['python']['version']}, {report['python']['executable']}"
    hook = report["hook"]
    if hook["active"]:
        yield "hook", f"active in a new interpreter, by {hook['route']}"
        yield "from", f"{hook['package']} ({hook['version']})"
    else:
        yield "hook", f"not active in a new interpreter: {hook['reason']}"
        yield "to do", hook["todo"]
    yield "vllm-gaudi", _release(report["release"])
    for overlay in dict.fromkeys(entry["overlay"] for entry in report["fixes"] if entry["overlay"] != "none"):
        yield "overlay", _overlay(overlay, [entry for entry in report["fixes"] if entry["overlay"] == overlay])
    for note in report["notes"]:
        yield "note", note
    for line in report["printed"]:
        yield "it printed", line


def _overlay(name: str, entries: list[dict[str, str]]) -> str:
    note = next((entry["note"] for entry in entries if entry["note"]), "")
    text = f"{name} for {', '.join(entry['fix'] for entry in entries)}"
    return f"{text}; unconfirmed: {note}" if note else text


def _release(release: dict[str, str] | None) -> str:
    if release is None:
        return "not found"
    how = {"nowhere": "neither its metadata nor a _version.py says which"}.get(
        release["source"], f"read from its {release['source']}"
    )
    return f"{release['version']} ({how}), in {release['root']}"


def _about(entry: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield "why" if entry["state"] != "applied" else "note", entry["reason"]
    yield "to do", entry["todo"]
    yield "function", f"{entry['module']}: {entry['function']}"
    yield "file", entry["file"]


def _aligned(rows: Iterable[tuple[str, str]], indent: str = "") -> str:
    filled = [(label, text) for label, text in rows if text]
    width = max(len(label) for label, _ in filled)
    return "\n".join(f"{indent}{label:<{width}}  {printable(text)}" for label, text in filled)
