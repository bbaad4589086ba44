"""The images and videos of a request, as written on the command line, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gaudi_shadow.planning.resize import Grid, RefusedError, ResizeRules, grid_of

MOST_ITEMS = 10_000


@dataclass(frozen=True)
class Asked:
    """One --image or --video.

    Attributes:
        modality: "image" or "video".
        width: pixels.
        height: pixels.
        frames: those that reach the processor; 1 for an image.
        count: how many of them.
    """

    modality: str
    width: int
    height: int
    frames: int = 1
    count: int = 1

    def __str__(self) -> str:
        frames = f"@{self.frames}" if self.modality == "video" else ""
        return f"{self.modality} {self.width}x{self.height}{frames}"


@dataclass(frozen=True)
class Item:
    """One image or video.

    Attributes:
        asked: what it was written as; one of them.
        grid: patches after resizing.
        rules: how it was resized.
    """

    asked: Asked
    grid: Grid
    rules: ResizeRules

    @property
    def patches(self) -> int:
        """What it puts through the vision tower."""
        return self.grid.patches

    @property
    def tokens(self) -> int:
        """What it becomes for the language model."""
        return self.patches // self.rules.merge_size**2

    @property
    def sequence(self) -> int:
        """Patches that attend to one another in the tower: the image's, or one time step of the video's."""
        return self.grid.h * self.grid.w


def parse_image(text: str) -> Asked:
    """WIDTHxHEIGHT or WIDTHxHEIGHTxCOUNT.

    Raises:
        RefusedError: it is neither.
    """
    numbers = _numbers("NxN(?:xN)?", text, "an image is written 4096x4096, or 4096x4096x7 for seven")
    return Asked("image", numbers[0], numbers[1], count=numbers[2])


def parse_video(text: str) -> Asked:
    """WIDTHxHEIGHT@FRAMES.

    Raises:
        RefusedError: it is not.
    """
    numbers = _numbers("NxN@N", text, "a video is written 1280x720@64, with the frames after sampling")
    return Asked("video", *numbers)


def _numbers(pattern: str, text: str, hint: str) -> list[int]:
    found = re.fullmatch(pattern.replace("N", "([0-9]{1,9})"), text.strip().lower())
    numbers = [int(digits or 1) for digits in found.groups()] if found else [0]
    if 0 in numbers:
        raise RefusedError(f"{text!r}: {hint}; each number from 1 to 999999999")
    return numbers


def items_of(asked: list[Asked], rules: Mapping[str, ResizeRules]) -> list[Item]:
    """Every image and video, in order.

    Args:
        asked: as written.
        rules: by modality.

    Raises:
        RefusedError: there is none, there are more than MOST_ITEMS, or the model's processor refuses a size.
    """
    count = sum(each.count for each in asked)
    if not 0 < count <= MOST_ITEMS:
        raise RefusedError(f"{count} images and videos: give from 1 to {MOST_ITEMS:,}, as --image 4096x4096x7")
    return list(_items(asked, rules))


def _items(asked: list[Asked], rules: Mapping[str, ResizeRules]) -> Iterator[Item]:
    for each in asked:
        own = rules[each.modality]
        one = replace(each, count=1)
        yield from [Item(one, grid_of(each.width, each.height, each.frames, own), own)] * each.count
