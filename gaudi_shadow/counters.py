"""What the fixes have done since the process started; plain integers, so that counting costs next to nothing."""

from __future__ import annotations

counts: dict[str, int] = {
    "encoder_calls": 0,
    "groups_split": 0,
    "largest_call_patches": 0,
    "items_without_grid": 0,
    "covered_features_skipped": 0,
    "merges": 0,
    "merge_mismatches": 0,
}


def add(name: str, amount: int = 1) -> None:
    """Count up. A thread that counts at the same moment may cost a count, never an error."""
    counts[name] += amount


def note_largest(name: str, value: int) -> None:
    """Keep the largest value seen."""
    counts[name] = max(counts[name], value)


def snapshot() -> dict[str, int]:
    """A copy of the counters."""
    return dict(counts)
