"""The report of `check` and `status`: what a new interpreter found, and the exit code."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import gaudi_shadow
from gaudi_shadow.commands import UsageError
from gaudi_shadow.inspection.asking import findings
from gaudi_shadow.inspection.entries import unknowable
from gaudi_shadow.outcome import APPLIED, DISABLED, DRIFTED, NOT_APPLIED, NOT_NEEDED

EXIT_CODES = {APPLIED: 0, NOT_NEEDED: 0, DISABLED: 1, NOT_APPLIED: 1, DRIFTED: 2}


def make_report(fixes: Collection[str] = (), root: str | None = None) -> dict[str, Any]:
    """Ask a new interpreter.

    Args:
        fixes: the names asked for; all when it is empty.
        root: a folder that holds vllm_gaudi; None for what Python finds.

    Returns:
        A dict that `json` can write; docs/cli.md describes the fields.

    Raises:
        UsageError: a name is no fix of ours, or `root` does not exist.
    """
    found = findings(root)
    del found["texts"]
    known, broken = found.pop("known"), found.pop("broken")
    unknown = sorted(set(fixes) - set(known))
    if unknown and not broken:
        raise UsageError(f"no fix is called {', '.join(unknown)}; the fixes are {', '.join(sorted(known))}")
    chosen = [entry for entry in found["fixes"] if not fixes or entry["fix"] in fixes]
    chosen += [unknowable(name, "; ".join(broken)) for name in unknown]
    return {"version": gaudi_shadow.__version__, **found, "fixes": chosen, "exit_code": exit_code(chosen)}


def exit_code(entries: Collection[dict[str, str]]) -> int:
    """The worst of some fixes: 0 applied or not needed, 1 not applied, 2 drifted."""
    return max(EXIT_CODES[entry["state"]] for entry in entries)
