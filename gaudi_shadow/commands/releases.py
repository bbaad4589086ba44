"""`gaudi-shadow releases`: which releases are patched, and which are not and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict

from gaudi_shadow.maintaining.known_releases import REFUSED, STATES, KnownRelease, known_releases

HELP = "list vllm-gaudi's releases: verified, accepted by their functions' text, refused and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def execute(args: argparse.Namespace) -> int:
    """Print the list, the newest release first."""
    releases = known_releases()
    print(json.dumps([asdict(each) for each in releases], indent=2) if args.json else as_text(releases))
    return 0


def as_text(releases: list[KnownRelease]) -> str:
    """A table, what its words mean, and why what is refused is refused."""
    names = list(dict.fromkeys(name for each in releases for name in each.fixes))
    rows = [["RELEASE", "STATE", *names]]
    rows += [[each.release, each.state, *(each.fixes[name].state for name in names)] for each in releases]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    used = {each.state for each in releases}
    words = [f"{state}: {meaning}" for state, meaning in STATES.items() if state in used]
    other = "Any other build is judged by the text of its functions, whatever it is called: 'gaudi-shadow check'."
    return "\n".join([*table, "", *words, "", *_reasons(releases), "", other])


def _reasons(releases: Iterable[KnownRelease]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for each in releases:
        for name, fix in each.fixes.items():
            if fix.state == REFUSED:
                reasons.setdefault(f"{name} refused: {fix.note}", []).append(each.release)
        if each.note:
            reasons.setdefault(f"{each.state}: {each.note}", []).append(each.release)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
