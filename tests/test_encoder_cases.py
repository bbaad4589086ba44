"""Cases 9 to 13: which items are encoded, in which calls, and under which hash the outputs land."""

from __future__ import annotations

import fix_helpers
import pytest
from fix_helpers_parts import (
    BATCHED,
    FLAT,
    ON_CPU,
    WIDTH,
    Tower,
    assert_same,
    audio,
    feature,
    image,
    noise,
    output_of,
    runner_of,
    stripped,
    torch,
    video,
)

BUDGETS = (None, "", 0, 1, 4, 8, 10**6)


@pytest.fixture(scope="module", params=fix_helpers.TREES)
def encoder(request):
    return fix_helpers.encoder(request, request.param)


def rows_of(item, name="pixel_values"):
    return item[name].data


def test_case_9_cached_and_text_only_requests_are_not_encoded(encoder):
    h2 = image(encoder.parts, 2, 3)
    sentinel = object()
    requests = {"A": [feature("h1", None), feature("h2", h2)], "B": [feature("h1", None)], "C": []}
    for budget in BUDGETS:
        runner = runner_of(requests, encoder_cache={"h1": sentinel})
        encoder.patched(runner, ["A", "B", "C"], budget)
        assert len(runner.model.calls) == 1
        assert runner.encoder_cache["h1"] is sentinel
        assert_same(runner.encoder_cache["h2"], output_of(rows_of(h2)))


def test_case_9_nothing_to_encode_calls_nothing(encoder):
    for budget in BUDGETS:
        runner = runner_of({"A": [feature("h1", None)], "C": []}, encoder_cache={"h1": "there"})
        before = len(encoder.grouped), len(encoder.bridge.events)
        encoder.patched(runner, ["A", "C"], budget)
        assert runner.model.calls == [] and runner.encoder_cache == {"h1": "there"}
        assert before == (len(encoder.grouped), len(encoder.bridge.events))


def test_only_the_scheduled_requests_are_looked_at(encoder):
    runner = runner_of({"A": [feature("h1", image(encoder.parts, 1, 2))], "B": [feature("h2", "not an item")]})
    encoder.patched(runner, ["A"], 8)
    assert list(runner.encoder_cache) == ["h1"]


def mixed_modalities(parts):
    items = [
        ("image", image(parts, 1, 4)),
        ("image", image(parts, 2, 4)),
        ("video", video(parts, 3, 2, 2, 2)),
        ("image", image(parts, 4, 4)),
        ("audio", audio(parts, 5)),
        ("image", image(parts, 6, 4)),
    ]
    return [feature(f"h{number}", item, modality) for number, (modality, item) in enumerate(items)]


def test_case_10_a_call_holds_one_modality_and_is_never_empty(encoder):
    features = mixed_modalities(encoder.parts)
    runner = runner_of({"A": features[:3], "B": features[3:]})
    before = len(encoder.grouped)
    encoder.patched(runner, ["A", "B"], 8)
    groups = [[modality for modality, _ in pairs] for pairs, _ in encoder.grouped[before:]]
    assert groups == [["image", "image"], ["video"], ["image"], ["audio"], ["image"]]
    assert runner.model.patches == [8, 8, 4, 3, 4]
    assert list(runner.encoder_cache) == [each.identifier for each in features]
    for each in features:
        values = next(element.data for name, element in each.data.items() if not name.endswith("_grid_thw"))
        assert_same(runner.encoder_cache[each.identifier], output_of(values))


@pytest.mark.parametrize("budget", [None, "", 0, "0", "  ", "00"])
def test_case_10_without_a_budget_the_calls_are_stocks(encoder, budget):
    features = mixed_modalities(encoder.parts)
    first = len(encoder.grouped)
    stock, patched = encoder.both(lambda: runner_of({"A": features}, device="cpu", pin_memory=False), ["A"], budget)
    assert len(encoder.grouped) == first + 2
    (stock_pairs, stock_options), (our_pairs, our_options) = encoder.grouped[first:]
    assert stock_options == our_options == {"device": "cpu", "pin_memory": False}
    assert [(modality, id(item)) for modality, item in stock_pairs] == [(m, id(item)) for m, item in our_pairs]
    assert_same(stock.model.calls, patched.model.calls)
    assert_same(stock.encoder_cache, patched.encoder_cache)


def test_case_11_a_repeated_image_holds_its_own_content(encoder):
    h1, h2 = image(encoder.parts, 1, 4), image(encoder.parts, 2, 6)
    for budget in BUDGETS:
        runner = runner_of({"A": [feature("h1", h1), feature("h2", h2), feature("h1", h1)]})
        encoder.patched(runner, ["A"], budget)
        assert list(runner.encoder_cache) == ["h1", "h2"]
        assert_same(runner.encoder_cache["h1"], output_of(rows_of(h1)))
        assert_same(runner.encoder_cache["h2"], output_of(rows_of(h2)))


def test_case_12_items_without_a_count_are_encoded_once_in_place(encoder):
    parts = encoder.parts
    pixels = parts.item("image", {"pixel_values": (noise(3, 5, WIDTH), BATCHED)})
    grid = torch.tensor((1, 2, 2))
    embeds = parts.item("image", {"image_embeds": (noise(4, 4, WIDTH), FLAT), "image_grid_thw": (grid, ON_CPU)})
    first, second, last = (image(parts, seed, 2) for seed in (1, 7, 5))
    items = [first, audio(parts, 2), second, pixels, pixels, embeds, embeds, last]
    kinds = ["image", "audio", *["image"] * 6]
    features = [feature(f"h{number}", item, kind) for number, (item, kind) in enumerate(zip(items, kinds, strict=True))]
    for budget in (4, 1000):
        runner = runner_of({"A": features})
        encoder.patched(runner, ["A"], budget)
        assert runner.model.patches == [2, 3, 2, 5, 5, 4, 4, 2]
        assert list(runner.encoder_cache) == [each.identifier for each in features]
        stock = runner_of({"A": features})
        encoder.stock(stock, ["A"])
        assert_same(stock.encoder_cache, runner.encoder_cache)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_outputs_are_spread_over_the_placeholders_as_stock_spreads_them(encoder, dtype):
    mask = torch.tensor([True, False, True, True, False])
    item = image(encoder.parts, 1, 3)
    rows_of(item).copy_(torch.tensor([[0.0, -0.0, float("nan"), float("inf")]]).expand(3, WIDTH))

    class Typed(Tower):
        def embed_multimodal(self, **batch):
            return [output.to(getattr(torch, dtype)) for output in super().embed_multimodal(**batch)]

    for budget in (None, 1, 10):
        features = [feature("h1", item, is_embed=mask), feature("h2", item, is_embed=None)]
        stock, patched = encoder.both(lambda features=features: runner_of({"A": features}, Typed()), ["A"], budget)
        assert patched.encoder_cache["h1"].shape == (5, WIDTH)
        assert bool(patched.encoder_cache["h1"][1].isnan().all())
        assert_same(stock.encoder_cache, patched.encoder_cache)


def test_a_tensor_of_equal_outputs_is_taken_apart_as_stock_does(encoder):
    class Stacking(Tower):
        def embed_multimodal(self, **batch):
            return torch.stack(super().embed_multimodal(**batch))

    features = [feature(f"h{seed}", image(encoder.parts, seed, 4)) for seed in range(5)]
    stock, patched = encoder.both(lambda: runner_of({"A": features}, Stacking()), ["A"], 8)
    assert patched.model.patches == [8, 8, 4]
    assert_same(stock.encoder_cache, patched.encoder_cache)


def covered_requests(parts, uses_mrope):
    gone = stripped(parts, image(parts, 1, 4)) if uses_mrope else None
    whole = [image(parts, seed, 4) for seed in (2, 3)]
    return whole, [feature("h1", gone), feature("h2", whole[0]), feature("h3", gone), feature("h4", whole[1])]


STRIPPED = {  # uses_mrope -> what stock dies of
    True: (AssertionError, "Expected multimodal embeddings to be a list.* but got <class 'NoneType'>"),
    False: (AttributeError, "'NoneType' object has no attribute '(keys|items)'"),
}


@pytest.mark.parametrize("uses_mrope", [True, False])
def test_case_13_stock_dies_of_stripped_data(encoder, uses_mrope):
    _, features = covered_requests(encoder.parts, uses_mrope)
    error, words = STRIPPED[uses_mrope]
    with pytest.raises(error, match=words):
        encoder.stock(runner_of({"A": features}, uses_mrope=uses_mrope), ["A"])


@pytest.mark.parametrize("disabled", [(), (fix_helpers.BUDGET,)])
@pytest.mark.parametrize("uses_mrope", [True, False])
@pytest.mark.parametrize("budget", [None, 4])
def test_case_13_what_is_stripped_is_left_out_and_the_rest_encoded(encoder, uses_mrope, budget, disabled):
    whole, features = covered_requests(encoder.parts, uses_mrope)
    runner = runner_of({"A": features}, uses_mrope=uses_mrope)
    if not encoder.has_covered:  # a release whose vLLM strips nothing: such an item reaches the model as in stock
        error, words = STRIPPED[uses_mrope]
        with pytest.raises(error, match=words):
            encoder.patched(runner, ["A"], budget, disabled)
        return
    encoder.patched(runner, ["A"], budget, disabled)
    assert runner.model.patches == ([4, 4] if budget and not disabled else [8])
    assert list(runner.encoder_cache) == ["h2", "h4"]
    assert_same(list(runner.encoder_cache.values()), [output_of(rows_of(item)) for item in whole])


@pytest.mark.parametrize("uses_mrope", [True, False])
def test_case_13_switched_off_the_budget_alone_changes_nothing_about_it(encoder, uses_mrope):
    _, features = covered_requests(encoder.parts, uses_mrope)
    error, words = STRIPPED[uses_mrope]
    with pytest.raises(error, match=words):
        encoder.patched(runner_of({"A": features}, uses_mrope=uses_mrope), ["A"], 4, (fix_helpers.COVERED,))
    whole = [feature(f"h{seed}", image(encoder.parts, seed, 4)) for seed in range(3)]
    runner = runner_of({"A": whole})
    encoder.patched(runner, ["A"], 8, (fix_helpers.COVERED,))
    assert runner.model.patches == [8, 4]


def test_case_13_when_all_is_stripped_nothing_is_called(encoder):
    if not encoder.has_covered:
        pytest.skip("needs a release whose vLLM strips data (v0.30.0 or later)")
    gone = stripped(encoder.parts, image(encoder.parts, 1, 4))
    runner = runner_of({"A": [feature("h1", gone), feature("h2", None), feature("h3", type(gone)())]})
    encoder.patched(runner, ["A"], 4)
    assert (runner.model.calls, runner.encoder_cache) == ([], {})


def test_covered_is_what_is_stripped_and_never_judged_by_position(encoder):
    kept = encoder.parts.item("image", {"image_grid_thw": (torch.tensor((1, 1, 2)), ON_CPU)})
    whole = feature("h1", image(encoder.parts, 1, 2))
    whole.mm_position.offset, whole.mm_position.length = 0, 2
    runner = runner_of({"A": [whole, feature("h2", kept)]}, uses_mrope=False)
    runner.requests["A"].num_computed_tokens = 100
    # Without M-RoPE only None is stripped: an item with nothing but a grid reaches the model as before.
    with pytest.raises(AssertionError, match="got <class 'NoneType'>"):
        encoder.patched(runner, ["A"], 2)
    assert list(runner.encoder_cache) == ["h1"]
