"""The encoder calls that a budget makes of a request, and which budgets are worth a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaudi_shadow.fixes.mm_encoder_budget import consecutive_groups
from gaudi_shadow.planning.items import Item
from gaudi_shadow.planning.memory import Setting, Tower, result_bytes, transient_bytes


@dataclass(frozen=True)
class Call:
    """One call of the vision tower.

    Attributes:
        items: what it encodes.
    """

    items: tuple[Item, ...]

    @property
    def patches(self) -> int:
        """What goes through the tower at once."""
        return sum(item.patches for item in self.items)

    @property
    def longest_sequence(self) -> int:
        """See Item.sequence."""
        return max(item.sequence for item in self.items)


@dataclass(frozen=True)
class Peak:
    """Where the device holds most, in bytes.

    Attributes:
        transient: what the call adds while it runs.
        results: what the calls before it left in the encoder cache.
    """

    transient: int
    results: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.transient + self.results


def calls_under(items: Sequence[Item], budget: int) -> list[Call]:
    """The calls that the runner makes for these items when they are all new and scheduled at once.

    Args:
        items: in the request's order.
        budget: patches; 0 is stock behaviour, which batches all consecutive items of a modality.
    """
    limit = budget or sum(item.patches for item in items)
    groups = consecutive_groups(
        items, limit, patches=lambda item: item.patches, modality=lambda item: item.asked.modality
    )
    return [Call(tuple(group)) for group in groups]


def peak_of(calls: Sequence[Call], tower: Tower, setting: Setting) -> Peak:
    """The estimate for a whole request: the fullest moment over its calls."""
    peaks, results = [], 0
    for call in calls:
        peaks.append(Peak(transient_bytes(tower, setting, call.patches, call.longest_sequence), results))
        results += result_bytes(tower, setting, call.patches)
    return max(peaks, key=lambda peak: peak.total)


def advised_budget(items: Sequence[Item]) -> int:
    """The patches of the largest item: below it no call gets smaller, above it calls get larger."""
    return max(item.patches for item in items)


def budgets_worth_a_look(items: Sequence[Item], asked: int = 0) -> list[int]:
    """Unset (0), then from large to small the doublings of the largest item that split something, and `asked`."""
    largest, total = advised_budget(items), sum(item.patches for item in items)
    doublings = [largest << power for power in range((total // largest).bit_length() + 1)]
    shown = {each for each in doublings if each < total} | {largest} | ({asked} if asked else set())
    return [0, *sorted(shown, reverse=True)]
