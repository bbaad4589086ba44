"""Which budget to set, in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaudi_shadow.fixes.mm_encoder_budget import VARIABLE
from gaudi_shadow.planning.calls import advised_budget, calls_under
from gaudi_shadow.planning.items import Item
from gaudi_shadow.planning.resize import LONGEST_TO_SHORTEST, ResizeRules

# How much more than the lowest peak is little.
CLOSE = 1.05


def advice_for(
    images: ResizeRules, items: Sequence[Item], budget: int, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The budget to set, and why.

    Args:
        images: how the model resizes them.
        items: of the request, in order.
        budget: what was asked about; 0 when nothing was.
        rows: what comes of each budget that is shown, from the largest on; see report.plan_of.
    """
    advised = advised_budget(items)
    largest = max(items, key=lambda item: item.patches)
    lines = [
        f"{advised:,} patches are those of the largest item, {largest.asked}: then no call is larger. "
        "A smaller budget does not help that item, which runs alone and whole all the same"
    ]
    lines += _fewer_calls(rows, advised)
    if 0 < budget < advised:
        lines.append(f"the budget of {budget:,} is below it: the largest call stays at {advised:,} patches")
    if (ceiling := most_patches_of_an_image(images)) is not None and ceiling > advised:
        lines.append(
            f"if larger images may come: {ceiling} in its place serves all, since this model's processor makes no more "
            "patches of an image, whatever its size"
        )
    return {
        "budget": advised,
        "set": f"{VARIABLE}={advised}",
        "lines": lines,
        "warm_up": _warm_up(items, budget or advised),
    }


def _fewer_calls(rows: Sequence[Mapping[str, Any]], advised: int) -> Iterator[str]:
    """Where the results outweigh the calls, a larger budget costs little memory and saves calls."""
    (least,) = (row for row in rows if row["budget"] == advised)
    close = [
        row for row in rows if row["budget"] and row.get("peak_bytes", math.inf) <= CLOSE * least.get("peak_bytes", 0)
    ]
    if close and close[0]["calls"] < least["calls"]:
        more = close[0]["peak_bytes"] / least["peak_bytes"] - 1
        yield (
            f"a budget of {close[0]['budget']} peaks {more:.1%} higher, with {close[0]['calls']:,} calls "
            f"for {least['calls']:,}"
        )


def most_patches_of_an_image(rules: ResizeRules) -> int | None:
    """The most patches that an image of any size comes to; None where the limit on pixels does not bound it."""
    side, other = math.sqrt(rules.min_pixels * LONGEST_TO_SHORTEST), math.sqrt(rules.min_pixels / LONGEST_TO_SHORTEST)
    enlarged = (side + rules.unit) * (other + rules.unit)
    if rules.max_pixels < max(LONGEST_TO_SHORTEST * rules.unit**2, enlarged):
        return None
    return rules.max_pixels // rules.unit**2 * rules.merge_size**2


def _warm_up(items: Sequence[Item], budget: int) -> str:
    """What to warm so that warm-up, which knows no budget, makes no call that the budget would not."""
    most: dict[str, int] = {}
    for call in calls_under(items, budget):
        sizes = Counter(f"{each.asked.width}x{each.asked.height}" for each in call.items)
        if call.items[0].asked.modality == "image":
            most |= {size: max(count, most.get(size, 0)) for size, count in sizes.items()}
    counted = [f"{size}x{count}" if count == 1 else f"{size}x1-{count}" for size, count in most.items()]
    return f"VLLM_MULTIMODAL_RESOLUTIONS={','.join(counted)}" if counted else ""
