"""What plan computes, as properties: resizing, grouping, peaks, and the bound on an image's patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_shadow.planning.advice import most_patches_of_an_image
from gaudi_shadow.planning.calls import advised_budget, budgets_worth_a_look, calls_under, peak_of
from gaudi_shadow.planning.families import FAMILIES, published_rules
from gaudi_shadow.planning.items import Asked, Item, items_of
from gaudi_shadow.planning.memory import Setting, Tower, result_bytes, transient_bytes
from gaudi_shadow.planning.resize import Grid, RefusedError, ResizeRules, grid_of
from gaudi_shadow.planning.units import size_text

IMAGES, VIDEOS = published_rules(FAMILIES["qwen3_vl"], patch_size=16, merge_size=2, temporal_patch_size=2)
TOWERS = (
    Tower("qwen3_vl", 1152, 4304, 16, 5120, deepstack=3, deepstack_held=3, merged=4, pixels=1536),
    Tower("qwen2_vl", 1280, 5120, 16, 3584, deepstack=0, deepstack_held=0, merged=4, pixels=1176),
)
SIDE = st.integers(1, 30_000)


def items(*sizes: int, modality: str = "image") -> list[Item]:
    return [Item(Asked(modality, size, 1), Grid(1, 1, size), IMAGES) for size in sizes]


@st.composite
def limits(draw: Callable[..., Any]) -> ResizeRules:
    least = draw(st.integers(1, 3_000_000))
    most = draw(st.integers(least, 30_000_000))
    return ResizeRules(draw(st.sampled_from([8, 14, 16])), draw(st.sampled_from([1, 2, 3])), 2, least, most)


@given(rules=limits(), width=SIDE, height=SIDE)
def test_a_grid_is_whole_tokens_and_turns_with_the_image(rules: ResizeRules, width: int, height: int) -> None:
    try:
        grid = grid_of(width, height, 1, rules)
    except RefusedError:
        assert max(width, height) > 200 * min(width, height)
        return
    assert grid.t == 1
    assert grid.h % rules.merge_size == grid.w % rules.merge_size == 0
    assert min(grid.h, grid.w) > 0
    turned = grid_of(height, width, 1, rules)
    assert (turned.h, turned.w) == (grid.w, grid.h)


@given(rules=limits(), width=SIDE, height=SIDE)
def test_no_image_is_above_the_bound(rules: ResizeRules, width: int, height: int) -> None:
    bound = most_patches_of_an_image(rules)
    if bound is None or max(width, height) > 200 * min(width, height):
        return
    assert grid_of(width, height, 1, rules).patches <= bound


def test_the_bound_is_reached_and_missing_where_it_would_be_wrong() -> None:
    assert most_patches_of_an_image(IMAGES) == grid_of(4096, 4096, 1, IMAGES).patches == 65_536
    assert most_patches_of_an_image(ResizeRules(16, 2, 2, 65_536, 65_536)) is None
    assert most_patches_of_an_image(ResizeRules(16, 2, 2, 1, 100_000)) is None


@pytest.mark.parametrize(("frames", "steps"), [(1, 1), (2, 1), (3, 2), (64, 32), (65, 33)])
def test_frames_are_padded_to_whole_steps(frames: int, steps: int) -> None:
    assert grid_of(640, 480, frames, VIDEOS).t == steps


def test_the_frames_of_a_video_share_its_pixels() -> None:
    assert grid_of(1280, 720, 8, VIDEOS).patches == 4 * 44 * 80
    long = grid_of(1280, 720, 768, VIDEOS)
    assert (long.h, long.w) < (44, 80)
    assert long.patches * 16 * 16 * 2 <= VIDEOS.max_pixels


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30), budget=st.integers(0, 200))
def test_calls_keep_order_and_stay_within_the_budget(sizes: list[int], budget: int) -> None:
    wanted = items(*sizes)
    calls = calls_under(wanted, budget)
    assert [item for call in calls for item in call.items] == wanted
    if budget:
        assert all(call.patches <= budget or len(call.items) == 1 for call in calls)
    else:
        assert len(calls) == 1
    assert max(call.patches for call in calls_under(wanted, advised_budget(wanted))) == max(sizes)


def test_stock_makes_one_call_for_each_run_of_a_modality() -> None:
    mixed = [*items(4, 4), *items(8, modality="video"), *items(4)]
    assert [len(call.items) for call in calls_under(mixed, 0)] == [2, 1, 1]


@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=40), asked=st.integers(0, 300_000))
def test_the_budgets_shown_begin_unset_and_end_at_the_largest_item_or_below(sizes: list[int], asked: int) -> None:
    shown = budgets_worth_a_look(items(*sizes), asked)
    assert shown[0] == 0
    assert shown[1:] == sorted(set(shown[1:]), reverse=True)
    assert max(sizes) in shown
    assert asked in shown
    assert all(each < sum(sizes) or each in (max(sizes), asked) for each in shown)


@pytest.mark.parametrize("tower", TOWERS)
@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=12), split=st.sampled_from([1, 2, 4]))
def test_the_peak_falls_with_the_budget_but_not_below_the_floor(tower: Tower, sizes: list[int], split: int) -> None:
    setting, wanted = Setting(2, split), items(*sizes)
    stock, *budgets = (
        peak_of(calls_under(wanted, each), tower, setting).total for each in budgets_worth_a_look(wanted)
    )
    floor = transient_bytes(tower, setting, max(sizes), max(sizes))
    assert stock == transient_bytes(tower, setting, sum(sizes), max(sizes))
    assert all(floor <= peak <= stock + 1 for peak in budgets)


@pytest.mark.parametrize("tower", TOWERS)
def test_a_call_holds_its_own_results_and_its_pixels_at_least(tower: Tower) -> None:
    for setting in (Setting(), Setting(4, 8), Setting(2, 2, fused_attention=False)):
        pixels = 1000 * tower.pixels * setting.element_bytes
        assert transient_bytes(tower, setting, 1000, 1000) > pixels + result_bytes(tower, setting, 1000)


def test_scores_grow_with_the_square_of_the_largest_item() -> None:
    math, fused = Setting(fused_attention=False), Setting()
    more = [
        transient_bytes(TOWERS[0], math, 65_536, longest) - transient_bytes(TOWERS[0], fused, 65_536, longest)
        for longest in (4_096, 8_192)
    ]
    assert more == [9 * 16 * 4_096**2, 9 * 16 * 8_192**2]


def test_every_item_is_resized_by_its_own_modality() -> None:
    asked = [Asked("image", 4096, 4096, count=2), Asked("video", 1280, 720, frames=8)]
    found = items_of(asked, {"image": IMAGES, "video": VIDEOS})
    assert [item.patches for item in found] == [65_536, 65_536, 4 * 44 * 80]
    assert [item.tokens for item in found] == [16_384, 16_384, 44 * 80]
    assert [item.sequence for item in found] == [65_536, 65_536, 44 * 80]


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 MiB"), (1 << 20, "1 MiB"), (1 << 30, "1.00 GiB"), (3 << 29, "1.50 GiB")]
)
def test_sizes_are_told_in_words(size: int, words: str) -> None:
    assert size_text(size) == words
