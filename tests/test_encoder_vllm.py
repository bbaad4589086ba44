"""The real encoder step, stock and patched, over vLLM's own items, field configs, batching and stripping."""

from __future__ import annotations

from dataclasses import replace

import fix_helpers
import pytest
from fix_helpers_parts import Tower, assert_same, has_vllm, noise, runner_of, torch, vllm_parts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(not has_vllm(), reason="needs vLLM (0.26.0 or 0.30.0) in this Python")
SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
MERGE_SIZE = 2


@pytest.fixture(scope="module")
def encoder(request):
    found = fix_helpers.encoder(request, "real")
    assert found.parts.origin == vllm_parts().origin
    return found


def items_of(modality, inputs, configs):
    from vllm.multimodal.inputs import MultiModalKwargsItems

    return list(MultiModalKwargsItems.from_hf_inputs(inputs, configs)[modality])


def qwen_items(modality, grids, seed, *, embeds=False):
    """Items as the Qwen-VL line's processors make them: one call for several images, as for one prompt."""
    from vllm.model_executor.models.qwen2_vl import _create_qwen2vl_field_factory

    grid = torch.tensor(grids)
    rows = int(grid.prod(-1).sum())
    pixels = "pixel_values" if modality == "image" else "pixel_values_videos"
    inputs = {f"{modality}_grid_thw": grid, pixels: noise(seed, rows, 6)}
    if embeds:
        inputs = {f"{modality}_grid_thw": grid, f"{modality}_embeds": noise(seed, rows // MERGE_SIZE**2, 6)}
    elif modality == "video":
        inputs["timestamps"] = torch.arange(len(grids), dtype=torch.float32)[:, None]
    return items_of(modality, inputs, _create_qwen2vl_field_factory(MERGE_SIZE)(inputs))


def llava_items(count, seed, size=3):
    from vllm.multimodal.inputs import MultiModalFieldConfig

    inputs = {"pixel_values": noise(seed, count, size, 6)}
    return items_of("image", inputs, {"pixel_values": MultiModalFieldConfig.batched("image")})


def shared_items(count, seed):
    """Items that share a value: vLLM must not batch them with items of another value."""
    from vllm.multimodal.inputs import MultiModalFieldConfig

    inputs = {"input_features": noise(seed, count, 3, 6), "rate": torch.tensor(seed)}
    configs = {
        "input_features": MultiModalFieldConfig.batched("audio"),
        "rate": MultiModalFieldConfig.shared("audio", count),
    }
    return items_of("audio", inputs, configs)


class QwenTower(Tower):
    """Four patches become one row; precomputed embeddings pass by; an odd width shows in the result."""

    def embed_multimodal(self, **batch):
        self.calls.append(batch)
        for modality in ("image", "video"):
            if f"{modality}_grid_thw" not in batch:
                continue
            sizes = (batch[f"{modality}_grid_thw"].prod(-1) // MERGE_SIZE**2).tolist()
            if f"{modality}_embeds" in batch:
                return batch[f"{modality}_embeds"].split(sizes)
            pixels = batch.get("pixel_values", batch.get("pixel_values_videos"))
            return None if pixels is None else (pixels[::4] * 2 + pixels[3::4]).split(sizes)
        return [rows * 2 for rows in batch.get("pixel_values", batch.get("input_features"))]


def features_of(items, modality, seed, spread=False):
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

    made = []
    for number, item in enumerate(items):
        grid = item.get("image_grid_thw", item.get("video_grid_thw"))
        rows = 3 if grid is None else int(grid.data.prod()) // MERGE_SIZE**2
        mask = torch.tensor([True, False] * rows) if spread else None
        position = PlaceholderRange(offset=10 * number, length=2 * rows if spread else rows, is_embed=mask)
        identifier = f"{modality}-{seed}-{number}"
        made.append(MultiModalFeatureSpec(data=item, modality=modality, identifier=identifier, mm_position=position))
    return made


GRIDS = st.lists(st.tuples(st.integers(1, 2), *[st.integers(1, 3).map(lambda n: 2 * n)] * 2), min_size=1, max_size=4)
PROMPTS = st.lists(
    st.one_of(
        st.tuples(st.just("qwen image"), GRIDS),
        st.tuples(st.just("qwen video"), GRIDS),
        st.tuples(st.just("qwen embeds"), GRIDS),
        st.tuples(st.just("llava"), st.integers(1, 3)),
        st.tuples(st.just("audio"), st.integers(1, 3)),
    ),
    max_size=5,
)


def request_features(kind, what, seed, spread):
    if kind == "llava":
        return features_of(llava_items(what, seed), "image", seed, spread)
    if kind == "audio":
        return features_of(shared_items(what, seed % 2), "audio", seed, spread)
    modality = "video" if kind.endswith("video") else "image"
    items = qwen_items(modality, what, seed, embeds=kind.endswith("embeds"))
    return features_of(items, modality, seed, spread)


@SETTINGS
@given(PROMPTS, st.integers(0, 120), st.booleans(), st.sampled_from(["cpu", torch.device("cpu")]))
def test_real_items_give_stocks_bits_under_any_budget(encoder, prompts, budget, spread, device):
    requests = {
        f"r{seed}": request_features(kind, what, seed, spread and bool(seed % 2))
        for seed, (kind, what) in enumerate(prompts)
    }
    first = len(encoder.grouped)
    stock, patched = encoder.both(lambda: runner_of(requests, QwenTower(), device=device), list(requests), budget)
    assert_same(list(stock.encoder_cache), list(patched.encoder_cache))
    assert_same(list(stock.encoder_cache.values()), list(patched.encoder_cache.values()))
    if budget == 0:
        assert_same(stock.model.calls, patched.model.calls)
        if stock.model.calls:
            (theirs, their_options), (ours, our_options) = encoder.grouped[first:]
            assert their_options == our_options == {"device": device, "pin_memory": False}
            assert [(kind, id(item)) for kind, item in theirs] == [(kind, id(item)) for kind, item in ours]
    for call in patched.model.calls if budget else []:
        grid = call.get("image_grid_thw", call.get("video_grid_thw"))
        assert grid is None or len(grid) == 1 or int(grid.prod(-1).sum()) <= budget


def test_unset_the_calls_are_stocks_to_the_argument(encoder):
    requests = {
        "A": request_features("qwen image", [(1, 4, 4), (1, 2, 2)], 1, spread=True),
        "B": request_features("qwen video", [(2, 4, 4)], 2, spread=False),
        "C": request_features("llava", 2, 3, spread=False) + request_features("audio", 2, 4, spread=False),
    }
    stock, patched = encoder.both(lambda: runner_of(requests, QwenTower()), ["A", "B", "C"])
    assert len(stock.model.calls) == 4
    assert_same(stock.model.calls, patched.model.calls)
    assert [list(call) for call in stock.model.calls] == [list(call) for call in patched.model.calls]


def test_a_budget_holds_for_real_items_and_embeddings_stand_alone(encoder):
    features = request_features("qwen image", [(1, 4, 4), (1, 2, 2), (1, 4, 4), (1, 8, 8), (1, 2, 2)], 1, spread=False)
    features += request_features("qwen embeds", [(1, 2, 2), (1, 2, 2)], 2, spread=False)
    runner = runner_of({"A": features}, QwenTower())
    encoder.patched(runner, ["A"], 20)
    grids = [call["image_grid_thw"].prod(-1).tolist() for call in runner.model.calls]
    assert grids == [[16, 4], [16], [64], [4], [4], [4]]


@pytest.mark.parametrize("uses_mrope", [True, False])
@pytest.mark.parametrize("budget", [None, 16])
def test_case_13_what_vllm_strips_is_left_out(encoder, uses_mrope, budget):
    strip = getattr(__import__("vllm.multimodal.utils", fromlist=["utils"]), "strip_covered_mm_data", None)
    if strip is None or not encoder.has_covered:
        pytest.skip("needs vLLM 0.30.0 or later, and a tree that its overlay fits: older ones strip no data")
    features = [
        replace(each, mm_position=replace(each.mm_position, offset=offset))
        for each, offset in zip(request_features("qwen image", [(1, 4, 4)] * 4, 1, False), (0, 4, 8, 12), strict=True)
    ]
    seen = strip(features, 8, uses_mrope=uses_mrope)
    assert [each.data is features[number].data for number, each in enumerate(seen)] == [False, False, True, True]
    stock = runner_of({"A": seen}, QwenTower(), uses_mrope=uses_mrope)
    with pytest.raises((AssertionError, AttributeError), match="NoneType"):
        encoder.stock(stock, ["A"])
    patched = runner_of({"A": seen}, QwenTower(), uses_mrope=uses_mrope)
    encoder.patched(patched, ["A"], budget)
    assert list(patched.encoder_cache) == ["image-1-2", "image-1-3"]
    whole = runner_of({"A": features}, QwenTower(), uses_mrope=uses_mrope)
    encoder.stock(whole, ["A"])
    for name, output in patched.encoder_cache.items():
        assert_same(output, whole.encoder_cache[name])
