"""The environment variables that switch us or single fixes off, and what is wrong with how they are set."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gaudi_shadow.finder import OFF_WORDS, ON_WORDS

DISABLE = "VLLM_GAUDI_SHADOW_DISABLE"
ON_OR_OFF = ("VLLM_GAUDI_SHADOW", "VLLM_GAUDI_SHADOW_STRICT")


def disabled_fixes() -> frozenset[str]:
    """The names in VLLM_GAUDI_SHADOW_DISABLE, split at commas; known or not."""
    names = (part.strip() for part in os.environ.get(DISABLE, "").split(","))
    return frozenset(name for name in names if name)


def settings_lines(known: Iterable[str]) -> list[str]:
    """One line for each setting of ours that does not do what its author may believe.

    Args:
        known: the names of all fixes.
    """
    lines = []
    unknown = sorted(disabled_fixes() - set(known))
    if unknown:
        lines.append(f"{DISABLE} names no fix of ours: {', '.join(unknown)}; the fixes are {', '.join(sorted(known))}")
    for name in ON_OR_OFF:
        value = os.environ.get(name, "")
        if value.strip().lower() not in ("", *OFF_WORDS, *ON_WORDS):
            state = "on" if name == "VLLM_GAUDI_SHADOW" else "off"
            words = ", ".join((*ON_WORDS, *OFF_WORDS))
            lines.append(f"{name}={value!r} is neither on nor off and counts as {state}; the words are {words}")
    for name in sorted(os.environ):
        if name.startswith("VLLM_GAUDI_SHADOW") and name not in (DISABLE, *ON_OR_OFF):
            lines.append(f"{name} is no variable of ours; those are {', '.join((*ON_OR_OFF, DISABLE))}")
    return lines
