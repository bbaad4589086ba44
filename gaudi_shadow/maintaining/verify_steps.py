"""What a maintainer does next with what `verify` found, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

UNKNOWN = "unknown"
NAME_HERE = "<name of the release>"
PAGE = "docs/adding-a-fix.md"


def steps(found: dict[str, Any], compared: bool) -> list[str]:
    """One line for each step.

    Args:
        found: what `verifying.verify` has put together so far.
        compared: whether another tree was given to compare with.
    """
    return list(_when_drifted(found, compared) if found["exit_code"] else _when_all_fit(found))


def _when_all_fit(found: dict[str, Any]) -> Iterator[str]:
    if found["add"]:
        yield f"merge what is to add, so that 'gaudi-shadow releases' lists {found['release']}"
        yield "run the tests with GAUDI_FIXES_ROOT at the tree; when they have run its functions, name it in 'verified'"
    elif found["release"] == UNKNOWN:
        yield "nothing, unless the release is to be listed: then name it with --release"
    else:
        yield "nothing: the release is listed, and every fix fits or is not needed"


def _when_drifted(found: dict[str, Any], compared: bool) -> Iterator[str]:
    missing = [each["function"] for each in found["drifted"] if each["fingerprint"] == "missing"]
    changed = [each for each in found["drifted"] if each["fingerprint"] != "missing"]
    if missing:
        yield f"find where {', '.join(missing)} went; a fix for it needs an overlay of its own ({PAGE})"
    if changed and not compared:
        yield "read what changed: run this again with --against and the tree of a release that is patched"
    if changed and found["add"]:
        yield (
            "if the fault is gone: put the fingerprint into fixed_fingerprints, or what only a function without the "
            "fault holds into fixed_markers"
        )
        yield "if the fault is there, and ours does all else that the new text does: merge what is to add"
    if found["add"] and found["release"] == UNKNOWN:
        yield f"name the release with --release, or write its name where what is to add has {NAME_HERE}"
    if changed:
        release = "this release" if found["release"] == UNKNOWN else found["release"]
        yield f"if the fault is there, and the new text does more: write an overlay for {release} ({PAGE})"
    for each in changed:
        if each["in_the_way"]:
            yield f"{each['function']} needs an overlay of its own in any case: {each['in_the_way']}"
    yield "run this again until it exits 0, then the tests with GAUDI_FIXES_ROOT at the tree"
