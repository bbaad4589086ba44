"""The environment variable that switches single fixes off."""

from __future__ import annotations

import os
from collections.abc import Iterable

DISABLE = "VLLM_GAUDI_SHADOW_DISABLE"


def disabled_fixes() -> frozenset[str]:
    """The names in VLLM_GAUDI_SHADOW_DISABLE, split at commas; known or not."""
    names = (part.strip() for part in os.environ.get(DISABLE, "").split(","))
    return frozenset(name for name in names if name)


def unknown_names_line(known: Iterable[str]) -> str | None:
    """One line about names in VLLM_GAUDI_SHADOW_DISABLE that are no fix, or None."""
    unknown = sorted(disabled_fixes() - set(known))
    if not unknown:
        return None
    return f"{DISABLE} names no fix of ours: {', '.join(unknown)}; the fixes are {', '.join(sorted(known))}"
