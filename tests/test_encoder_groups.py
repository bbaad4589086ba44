"""Case 8: how items are split into groups, and that no split changes an output."""

from __future__ import annotations

import functools
import itertools

import fix_helpers
import pytest
from fix_helpers_parts import assert_same, audio, feature, image, runner_of, torch, video
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaudi_shadow.fixes.mm_encoder_budget import consecutive_groups, patches_of

RELAXED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=fix_helpers.TREES)
def encoder(request):
    return fix_helpers.encoder(request, request.param)


def groups_of(sizes, limit, modalities=None):
    items = list(enumerate(sizes))
    kinds = modalities or ["image"] * len(items)
    return list(consecutive_groups(items, limit, patches=lambda item: item[1], modality=lambda item: kinds[item[0]]))


def test_case_8_greedy_groups():
    groups = groups_of([3, 3, 4, 20, 1, 9], 10)
    assert [[size for _, size in group] for group in groups] == [[3, 3, 4], [20], [1, 9]]


def test_case_8_in_the_runner(encoder):
    features = [feature(f"h{seed}", image(encoder.parts, seed, size)) for seed, size in enumerate([3, 3, 4, 20, 1, 9])]
    runner = runner_of({"A": features[:2], "B": features[2:]})
    encoder.patched(runner, ["A", "B"], 10)
    assert runner.model.patches == [10, 20, 10]
    assert runner.model.items == [3, 1, 2]


def test_case_8_frames_count_too(encoder):
    clips = [video(encoder.parts, 1, 4, 22, 30), video(encoder.parts, 2, 1, 22, 30)]
    assert [patches_of(clip) for clip in clips] == [2640, 660]
    features = [feature(f"h{number}", clip, "video") for number, clip in enumerate(clips)]
    for budget, calls in ((2640, [2640, 660]), (3299, [2640, 660]), (3300, [3300])):
        runner = runner_of({"A": features})
        encoder.patched(runner, ["A"], budget)
        assert runner.model.patches == calls


SIZES = st.lists(st.one_of(st.none(), st.integers(0, 40)), max_size=14)


@RELAXED
@given(SIZES, st.integers(1, 40), st.data())
def test_case_8_property(sizes, limit, data):
    kinds = data.draw(st.lists(st.sampled_from(["image", "video"]), min_size=len(sizes), max_size=len(sizes)))
    groups = groups_of(sizes, limit, kinds)
    assert [item for group in groups for item in group] == list(enumerate(sizes)), "order kept, nothing lost"
    assert all(groups), "no empty group"
    for group in groups:
        assert len({kinds[number] for number, _ in group}) == 1
        counts = [size for _, size in group]
        assert len(group) == 1 or (None not in counts and sum(counts) <= limit)
    for left, right in itertools.pairwise(groups):
        next_number, next_size = right[0]
        counts = [size for _, size in left] + [next_size]
        same_kind = kinds[left[-1][0]] == kinds[next_number]
        assert not (same_kind and None not in counts and sum(counts) <= limit), "it would have fitted"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["image", "image", "image", "video", "audio"]),
        st.integers(1, 12),  # patches
        st.integers(0, 6),  # the hash: small, so that images come again
        st.booleans(),  # whether the placeholder has tokens that take no output
        st.booleans(),  # whether it begins the next request
    ),
    max_size=10,
)


@RELAXED
@given(STEPS, st.sets(st.integers(0, 6), max_size=3), st.integers(0, 30))
def test_outputs_are_stocks_whatever_the_budget(encoder, step, cached, budget):
    requests, features = {"r0": []}, {}
    for kind, size, seed, spread, is_next in step:
        if is_next:
            requests[f"r{len(requests)}"] = []
        name = f"{kind}-{seed}"
        if name not in features:
            features[name] = make_feature(encoder.parts, name, kind, size, seed, spread)
        requests[f"r{len(requests) - 1}"].append(features[name])
    start = {f"image-{seed}": "sentinel" for seed in cached}
    make_runner = functools.partial(runner_of, requests)
    stock, patched = encoder.both(lambda: make_runner(encoder_cache=dict(start)), list(requests), budget)
    assert_same(sorted(stock.encoder_cache), sorted(patched.encoder_cache))
    for name, output in stock.encoder_cache.items():
        assert_same(output, patched.encoder_cache[name])
    if not budget:
        assert_same(stock.model.calls, patched.model.calls)
    for items, patches in zip(patched.model.items, patched.model.patches, strict=True):
        assert not budget or patches <= budget or items == 1


def make_feature(parts, name, kind, size, seed, spread):
    data = {"image": image, "video": video}[kind](parts, seed, size) if kind != "audio" else audio(parts, seed)
    rows = 3 if kind == "audio" else size
    mask = torch.tensor([True, False] * rows) if spread else None
    return feature(name, data, kind, mask)


def element(data):
    return type("Element", (), {"data": data})


@pytest.mark.parametrize(
    "grid, patches",
    [
        (torch.tensor([1, 4, 6]), 24),
        (torch.tensor([[1, 4, 6]]), 24),
        (torch.tensor([[1, 4, 6], [2, 2, 2]]), 32),
        ([1, 4, 6], 24),
        (((1, 4, 6), (2, 2, 2)), 32),
        ([torch.tensor([1, 4, 6]), torch.tensor([2, 2, 2])], 32),
        (torch.tensor([1, 256, 256], dtype=torch.int32), 65536),
        (torch.tensor([1, 2**20, 2**20]), 2**40),
        (torch.tensor([1.0, 4.0, 6.0]), 24),
        (torch.empty(0, 3, dtype=torch.int64), None),
        (torch.tensor([4, 6]), None),
        ([], None),
        (None, None),
        (["1", "x", "6"], None),
        ([float("nan"), 4, 6], None),
        ([float("inf"), 4, 6], None),
        ([None, 4, 6], None),
        (object(), None),
    ],
)
@pytest.mark.parametrize("name", ["image_grid_thw", "video_grid_thw"])
def test_what_can_be_counted_is_and_what_cannot_raises_nothing(name, grid, patches):
    assert patches_of({"pixel_values": element(None), name: element(grid)}) == patches


@pytest.mark.parametrize("data", [None, {}, {"image_grid_thw": None}, {"pixel_values": element(torch.zeros(3, 3))}])
def test_an_item_without_a_grid_has_no_count(data):
    assert patches_of(data) is None


@pytest.mark.parametrize("name", ["image_embeds", "video_embeds"])
def test_precomputed_embeddings_have_no_count(name):
    grid = element(torch.tensor([1, 4, 6]))
    assert patches_of({name: element(torch.zeros(24, 2)), name.replace("embeds", "grid_thw"): grid}) is None


def test_an_odd_grid_is_encoded_as_in_stock(encoder):
    """The count serves the budget and the counters only."""
    odd = encoder.parts.item("audio", {"input_features": (torch.ones(2, 4), "batched")})
    odd["image_grid_thw"] = type(odd["input_features"])(data=object(), field=odd["input_features"].field)
    assert patches_of(odd) is None
