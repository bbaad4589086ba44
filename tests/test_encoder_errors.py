"""What an encoder step leaves behind: after an error whole, right entries only; between groups nothing but outputs."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import fix_helpers
import pytest
from fix_helpers_parts import Tower, assert_same, audio, feature, image, output_of, runner_of, torch

from gaudi_shadow.fixes import mm_encoder_budget


@pytest.fixture(params=fix_helpers.TREES)
def encoder(request):
    return fix_helpers.encoder(request, request.param)


def images(encoder, *sizes):
    return [feature(f"h{seed}", image(encoder.parts, seed, size)) for seed, size in enumerate(sizes)]


def assert_right(runner, features):
    assert list(runner.encoder_cache) == [each.identifier for each in features]
    for each in features:
        assert_same(runner.encoder_cache[each.identifier], output_of(each.data["pixel_values"].data))


@pytest.mark.parametrize(
    "fault, error, words",
    [
        ("raises", RuntimeError, "PT_DEVMEM Allocation failed"),
        ("too few", AssertionError, "2"),
        ("too many", AssertionError, "2"),
    ],
)
def test_an_error_in_a_group_leaves_the_groups_before_it(encoder, fault, error, words):
    features = images(encoder, 2, 2, 2, 2, 2, 2)
    runner = runner_of({"A": features}, Tower(faulty={2: fault}))
    with pytest.raises(error, match=words):
        encoder.patched(runner, ["A"], 4)
    assert_right(runner, features[:2])
    assert len(runner.model.calls) == 2


@pytest.mark.parametrize("fault", ["too few", "too many"])
@pytest.mark.parametrize("budget", [None, 4])
def test_without_assertions_a_wrong_count_caches_nothing_of_its_group(encoder, fault, budget):
    """Under `python -O` vLLM's check of the outputs is gone."""
    encoder.parts = dataclasses.replace(encoder.parts, check_outputs=lambda outputs, expected_num_items: None)
    features = images(encoder, 2, 2, 2, 2)
    runner = runner_of({"A": features}, Tower(faulty={1 if budget is None else 2: fault}))
    with pytest.raises(ValueError, match=r"argument 2 is (shorter|longer)"):
        encoder.patched(runner, ["A"], budget)
    assert_right(runner, [] if budget is None else features[:2])


def test_a_mask_that_does_not_fit_its_output_caches_nothing_of_its_group(encoder):
    features = images(encoder, 2, 2, 2, 2)
    features[3].mm_position.is_embed = torch.tensor([True, True, True])
    runner = runner_of({"A": features})
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        encoder.patched(runner, ["A"], 4)
    assert_right(runner, features[:2])


def test_the_step_after_an_error_encodes_what_is_missing(encoder):
    features = images(encoder, 2, 2, 2, 2)
    runner = runner_of({"A": features}, Tower(faulty={2: "raises"}))
    with pytest.raises(RuntimeError):
        encoder.patched(runner, ["A"], 4)
    encoder.patched(runner, ["A"], 4)
    assert_right(runner, features)
    assert runner.model.patches == [4, 4, 4]


@pytest.mark.parametrize("budget", [None, "", 0, 100])
def test_one_group_closes_no_graph(encoder, budget):
    runner = runner_of({"A": images(encoder, 2, 3, 4)}, Tower(encoder.bridge.events))
    encoder.patched(runner, ["A"], budget)
    assert encoder.bridge.events == ["embed_multimodal"]


def test_mark_step_stands_between_groups_and_nowhere_else(encoder):
    runner = runner_of({"A": images(encoder, 4, 4, 4, 4, 4)}, Tower(encoder.bridge.events))
    encoder.patched(runner, ["A"], 8)
    call, step = "embed_multimodal", "mark_step"
    assert encoder.bridge.events == [call, step, call, step, call]


def test_what_vllm_splits_in_one_group_is_not_closed_in_between(encoder):
    kinds = [feature("h0", image(encoder.parts, 0, 2)), feature("h1", audio(encoder.parts, 1), "audio")]
    runner = runner_of({"A": kinds}, Tower(encoder.bridge.events))
    encoder.patched(runner, ["A"], None)
    assert encoder.bridge.events == ["embed_multimodal", "embed_multimodal"]


class Watching:
    """A tower that notes at the start of each call how much of the calls before it is alive, cached outputs aside."""

    def __init__(self):
        self.past = []
        self.alive = []

    def embed_multimodal(self, **batch):
        self.alive.append(sum(each() is not None for each in self.past))
        transient = batch["pixel_values"][0] * 3
        outputs = [rows * 2 + 1 for rows in batch["pixel_values"]]
        self.past += [weakref.ref(tensor) for tensor in [*batch["pixel_values"], batch["image_grid_thw"], transient]]
        self.past += map(weakref.ref, outputs)
        return outputs


def fresh_batches(pairs, **_):
    """Batches as vLLM makes them on a device: copies that belong to nobody else; a run ends where the width changes."""
    while pairs:
        width = pairs[0][1]["pixel_values"].data.shape[-1]
        run = [data for _, data in pairs if data["pixel_values"].data.shape[-1] == width]
        batch = {name: [data[name].data.clone() for data in run] for name in ("pixel_values", "image_grid_thw")}
        batch["image_grid_thw"] = torch.stack(batch["image_grid_thw"])
        yield "image", len(run), batch
        pairs = pairs[len(run) :]


@pytest.fixture
def no_collector():
    """What dies must die by itself: the collector may come too late."""
    gc.disable()
    yield
    gc.enable()


def watched_step(encoder, run):
    encoder.parts = dataclasses.replace(encoder.parts, group=fresh_batches)
    features = images(encoder, *[4] * 6)
    for each in features[3:]:
        each.data["pixel_values"].data = each.data["pixel_values"].data[:, :2]
    for each in features:  # the raw output is spread into another tensor, so nothing of a call itself is to live on
        each.mm_position.is_embed = torch.tensor([True, True, False, True, True])
    runner = runner_of({"A": features}, Watching())
    run(runner)
    assert len(runner.encoder_cache) == 6
    return runner.model.alive


def test_nothing_of_a_past_group_is_alive_when_the_next_begins(encoder, no_collector):
    assert watched_step(encoder, lambda runner: encoder.patched(runner, ["A"], 8)) == [0, 0, 0, 0]
    assert watched_step(encoder, lambda runner: encoder.patched(runner, ["A"], 4)) == [0] * 6


def test_the_watching_tower_sees_what_stock_keeps(encoder, no_collector):
    alive = watched_step(encoder, lambda runner: encoder.stock(runner, ["A"]))
    assert alive == [0, 3], "stock keeps the first batch's three outputs until all is encoded"


def test_the_budget_is_read_when_the_runner_is_imported_and_not_again(encoder, monkeypatch):
    features = images(encoder, 4, 4, 4)
    encoder.patched(runner_of({"A": features}), ["A"], 4)
    for later in ("8", "abc", ""):
        monkeypatch.setenv(mm_encoder_budget.VARIABLE, later)
        assert mm_encoder_budget.budget() == 4
        runner = runner_of({"A": features})
        encoder.again(runner, ["A"])
        assert runner.model.patches == [4, 4, 4]
