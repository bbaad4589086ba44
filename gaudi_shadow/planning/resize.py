"""How the Qwen-VL processors resize an image or a video, and the grid of patches that comes of it.

The rules are those of transformers 5.14 (Qwen2VLImageProcessor, Qwen2VLVideoProcessor, Qwen3VLVideoProcessor).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LONGEST_TO_SHORTEST = 200


class RefusedError(ValueError):
    """The model's processor would not take this size, or what was asked or read cannot be planned; one line."""


@dataclass(frozen=True)
class ResizeRules:
    """What decides how one modality is resized.

    Attributes:
        patch_size: side of a patch, in pixels.
        merge_size: side of the square of patches that becomes one token of the language model, in patches.
        temporal_patch_size: how many frames one patch spans.
        min_pixels: an item below it is enlarged.
        max_pixels: an item above it is shrunk.
        counts_frames: the two limits are for all frames together, as in Qwen3-VL's videos, not for one frame.
    """

    patch_size: int
    merge_size: int
    temporal_patch_size: int
    min_pixels: int
    max_pixels: int
    counts_frames: bool = False

    @property
    def unit(self) -> int:
        """Both sides become a multiple of this many pixels."""
        return self.patch_size * self.merge_size


@dataclass(frozen=True)
class Grid:
    """An item after resizing, in patches: `image_grid_thw` or `video_grid_thw` of the real processor.

    Attributes:
        t: patches in time.
        h: patches in height.
        w: patches in width.
    """

    t: int
    h: int
    w: int

    @property
    def patches(self) -> int:
        """How many patches enter the vision tower."""
        return self.t * self.h * self.w


def grid_of(width: int, height: int, frames: int, rules: ResizeRules) -> Grid:
    """The grid of an image (frames 1) or a video.

    Args:
        width: before resizing, in pixels, at least 1.
        height: before resizing, in pixels, at least 1.
        frames: those that reach the processor after sampling, at least 1.
        rules: of that modality.

    Raises:
        RefusedError: the real processor raises for this size.
    """
    _check(width, height, frames, rules)
    steps = math.ceil(frames / rules.temporal_patch_size)
    new_width, new_height = _resized(width, height, frames, steps * rules.temporal_patch_size, rules)
    return Grid(steps, new_height // rules.patch_size, new_width // rules.patch_size)


def _check(width: int, height: int, frames: int, rules: ResizeRules) -> None:
    size = f"{width}x{height}" + (f"@{frames}" if frames > 1 else "")
    if rules.counts_frames and min(width, height) < rules.unit:
        raise RefusedError(f"{size}: this model's video processor refuses a side below {rules.unit} pixels")
    if max(width, height) > LONGEST_TO_SHORTEST * min(width, height):
        raise RefusedError(
            f"{size}: the processor refuses what is more than {LONGEST_TO_SHORTEST} times as long as it is wide"
        )


def _resized(width: int, height: int, frames: int, padded_frames: int, rules: ResizeRules) -> tuple[int, int]:
    # The limits are compared with the frames as padded, but the scale is taken from those that are there.
    compared, scaled = (padded_frames, frames) if rules.counts_frames else (1, 1)
    sides = [round(side / rules.unit) * rules.unit for side in (width, height)]
    volume = compared * sides[0] * sides[1]
    if volume > rules.max_pixels:
        shrink = math.sqrt((scaled * height * width) / rules.max_pixels)
        sides = [max(rules.unit, math.floor(side / shrink / rules.unit) * rules.unit) for side in (width, height)]
    elif volume < rules.min_pixels:
        enlarge = math.sqrt(rules.min_pixels / (scaled * height * width))
        sides = [math.ceil(side * enlarge / rules.unit) * rules.unit for side in (width, height)]
    return sides[0], sides[1]
