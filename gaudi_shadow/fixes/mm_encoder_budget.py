"""mm-encoder-budget: keep each call of the vision tower within VLLM_HPU_MM_ENCODER_MAX_PATCHES patches.

vllm-gaudi's runner hands every image that is not cached, of every scheduled request, to the tower as one batch; the
transient memory grows with its patches and lies outside vLLM's KV accounting.
"""

from __future__ import annotations

import contextlib
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

VARIABLE = "VLLM_HPU_MM_ENCODER_MAX_PATCHES"
GRIDS = ("image_grid_thw", "video_grid_thw")
# Embeddings that were computed elsewhere carry a grid but never enter the tower.
PRECOMPUTED = ("image_embeds", "video_embeds")

Item = TypeVar("Item")

_budget = 0


def read_budget(environ: Mapping[str, str] = os.environ) -> int:
    """The budget in patches; 0 means stock behaviour.

    Raises:
        ValueError: the variable holds something else than a whole number >= 0 (ASCII digits, spaces around allowed;
            no more digits than `int` takes, which is 4,300 unless Python was told otherwise).
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return 0
    with contextlib.suppress(ValueError):  # too many digits: Python's own message does not name the variable
        if text.isascii() and text.isdigit():
            return int(text)
    raise ValueError(
        f"gaudi-shadow: {VARIABLE}={reprlib.repr(environ[VARIABLE])} is not a whole number of patches >= 0; "
        "set it to one such as 65536, or unset it for stock behaviour"
    )


def configure(on: bool) -> str:
    """Read the variable once, when the runner is imported.

    Returns:
        What a report should say beside the fix's name, empty when there is nothing to say.

    Raises:
        ValueError: see `read_budget`.
    """
    global _budget
    _budget = read_budget() if on else 0
    if _budget:
        return f"applied with a budget of {_budget} patches"
    return f"applied but idle: set {VARIABLE}" if on else ""


def budget() -> int:
    """The budget in patches as read when the runner was imported; 0 means stock behaviour."""
    return _budget


def patches_of(data: Mapping[str, Any]) -> int | None:
    """How many patches an item puts through the vision tower, or None when that cannot be known.

    Args:
        data: a MultiModalKwargsItem: field name -> element, whose `data` for a grid is an int tensor of shape (3,) or
            (n, 3) that holds t, h, w in patches (Qwen2-VL, Qwen2.5-VL, Qwen3-VL and other models of that line).

    Returns:
        The sum of t*h*w over the item's grids; None without a grid, and for precomputed embeddings.
    """
    if data is None or any(name in data for name in PRECOMPUTED):
        return None
    for name in GRIDS:
        if name in data:
            return _volume(getattr(data[name], "data", None))
    return None


def _volume(grid: Any) -> int | None:
    try:
        values = _flat(grid)
    except (TypeError, ValueError, OverflowError):  # a count must not be the reason why an image is not encoded
        return None
    if not values or len(values) % 3:
        return None
    return sum(t * h * w for t, h, w in zip(values[0::3], values[1::3], values[2::3], strict=True))


def _flat(values: Any) -> list[int]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, list | tuple):
        return [int(values)]
    return [each for value in values for each in _flat(value)]


def consecutive_groups(
    items: Iterable[Item],
    limit: int,
    patches: Callable[[Item], int | None],
    modality: Callable[[Item], str],
) -> Iterator[list[Item]]:
    """Split items into consecutive groups whose patches stay within `limit`; greedy, in order, none empty.

    An item over the limit stands alone, and so does an item without a count. A group holds one modality.
    """
    group: list[Item] = []
    total: int | None = 0
    for item in items:
        size = patches(item)
        fits = size is not None and total is not None and total + size <= limit
        if group and not (fits and modality(group[-1]) == modality(item)):
            yield group
            group, total = [], 0
        group.append(item)
        total = None if size is None or total is None else total + size
    if group:
        yield group
