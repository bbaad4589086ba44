"""Cases 1 to 6: multimodal rows land on their placeholders, in place and bit for bit, or nothing is written at all."""

from __future__ import annotations

import fix_helpers
import pytest
from fix_helpers_parts import assert_same, noise, torch

H = 3


@pytest.fixture(scope="module", params=fix_helpers.TREES)
def merge(request):
    return fix_helpers.merge(request, request.param)


def scattered(inputs, rows, mask):
    """What the broadcast masked_scatter_ makes of a copy."""
    copy = inputs.clone()
    copy.view(-1, copy.shape[-1]).masked_scatter_(mask.unsqueeze(-1), rows.to(inputs.dtype))
    return copy


def as_index(mask):
    return mask.nonzero().squeeze(-1)


FORMS = {"mask": lambda mask: mask, "index": as_index}
MASK = torch.tensor([False, True, True, False, True, False, True, False])


def test_case_1_an_index_is_not_taken_for_a_mask(merge):
    inputs, rows = torch.zeros(6, 2), torch.arange(1.0, 7.0).view(3, 2)
    merge.patched(inputs, [rows], torch.tensor([1, 2, 5]))
    assert inputs.tolist() == [[0, 0], [1, 2], [3, 4], [0, 0], [0, 0], [5, 6]]


def test_case_1_an_index_need_not_be_sorted(merge):
    inputs, rows = torch.zeros(4, 1), torch.tensor([[1.0], [2.0]])
    merge.patched(inputs, [rows], torch.tensor([3, 0]))
    assert inputs.flatten().tolist() == [2, 0, 0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_case_2_a_padded_batch(merge, form):
    mask = torch.tensor([False, True, True, False, True, True, False, False])
    inputs, rows = noise(1, 2, 4, H), noise(2, 4, H)
    expected = scattered(inputs, rows, mask)
    stock = inputs.clone()
    merge.stock(stock, [rows], FORMS[form](mask))
    merge.patched(inputs, [rows], FORMS[form](mask))
    assert_same(inputs, expected)
    assert_same(inputs, stock)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(8, H), (2, 4, H)])
@pytest.mark.parametrize("sizes, expression, total", [((3, 3), "3 + 3", 6), ((4, 4), "4 + 4", 8), ((1,), "1", 1)])
def test_case_3_a_mismatch_is_stocks_error_and_writes_nothing(merge, form, shape, sizes, expression, total):
    mask = torch.tensor([True] * 7 + [False])
    inputs = noise(1, *shape)
    before = inputs.clone()
    with pytest.raises(ValueError) as caught:
        merge.patched(inputs, [noise(seed, size, H) for seed, size in enumerate(sizes)], FORMS[form](mask))
    assert str(caught.value) == f"Attempted to assign {expression} = {total} multimodal tokens to 7 placeholders"
    assert_same(inputs, before)


def test_case_3_the_text_is_stocks(merge):
    """In the one branch where stock reports a mismatch in its own words: a 2-D mask and too few rows."""
    mask, parts = torch.tensor([True] * 7 + [False]), [noise(1, 2, H), noise(2, 2, 2, H)]
    texts = []
    for function in (merge.stock, merge.patched):
        with pytest.raises(ValueError) as caught:
            function(noise(3, 8, H), parts, mask)
        texts.append(str(caught.value))
    assert texts[0] == texts[1] == "Attempted to assign 2 + 2 x 2 = 6 multimodal tokens to 7 placeholders"


def test_case_3_stock_takes_surplus_rows_in_silence(merge):
    """That is why the patched function counts by itself."""
    mask = torch.tensor([True] * 7 + [False])
    merge.stock(noise(1, 8, H), [noise(2, 8, H)], mask)


@pytest.mark.parametrize("mask", [torch.ones(7, dtype=torch.bool), torch.ones(1, 8, dtype=torch.bool)])
@pytest.mark.parametrize("shape", [(8, H), (2, 4, H)])
def test_a_mask_of_another_shape_is_an_error_and_writes_nothing(merge, mask, shape):
    inputs = noise(1, *shape)
    before = inputs.clone()
    with pytest.raises(ValueError, match=r"the mask has shape .* the embeddings have 8 rows"):
        merge.patched(inputs, [noise(2, int(mask.sum()), H)], mask)
    assert_same(inputs, before)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_another_width_are_an_error_and_write_nothing(merge, form):
    inputs = noise(1, 8, H)
    before = inputs.clone()
    with pytest.raises((RuntimeError, IndexError)):
        merge.patched(inputs, [noise(2, 4, H + 1)], FORMS[form](MASK))
    assert_same(inputs, before)


SPECIAL = torch.tensor([[float("nan"), -0.0, 0.0], [float("inf"), -float("inf"), 1e-42], [65505.0, 3.4e38, 1 / 3]])
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("shape", [(8, H), (2, 4, H)])
def test_case_4_bits(merge, form, source, target, shape):
    inputs, rows = noise(1, *shape, dtype=target), torch.cat([SPECIAL, SPECIAL[:1]]).to(source)
    inputs.view(-1, H)[0] = -0.0
    expected = scattered(inputs, rows, MASK)
    returned = merge.patched(inputs, [rows[:1], rows[1:]], FORMS[form](MASK))
    assert_same(inputs, expected)
    assert_same(returned, expected)


def test_case_4_a_nan_keeps_its_payload(merge):
    rows = torch.tensor([[0x7FC12345, -4183, 0x7F812345]], dtype=torch.int32).view(torch.float32)
    inputs = torch.zeros(2, H)
    merge.patched(inputs, [rows], torch.tensor([False, True]))
    assert inputs.view(torch.int32)[1].tolist() == [0x7FC12345, -4183, 0x7F812345]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(8, H), (2, 4, H)])
def test_case_5_in_place(merge, form, shape):
    inputs, rows = noise(1, *shape), noise(2, 4, H)
    kept = rows.clone()
    returned = merge.patched(inputs, [rows], FORMS[form](MASK))
    assert returned.data_ptr() == inputs.data_ptr() and returned.shape == inputs.shape
    returned[:] = 7
    assert bool((inputs == 7).all())
    assert_same(rows, kept)


NARROW = {
    "every other row": lambda base: base[::2],
    "a part of the width": lambda base: base[:8, 2 : 2 + H],
    "turned": lambda base: base[:H, :8].T,
    "batch, a part of the width": lambda base: base[:8].view(2, 4, 16)[..., 2 : 2 + H],
    "batch, a part of the length": lambda base: base.view(2, 8, 16)[:, :4, :H],
    "batch and length turned": lambda base: base[:8].view(4, 2, 16)[..., :H].transpose(0, 1),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("narrow", NARROW)
def test_case_5_a_view_is_written_in_its_base_or_refused(merge, form, narrow):
    base = noise(1, 16, 16)
    before = base.clone()
    inputs = NARROW[narrow](base)
    rows = noise(2, 4, inputs.shape[-1])
    try:
        merge.patched(inputs, [rows], FORMS[form](MASK))
    except RuntimeError as error:
        assert "view" in str(error) and inputs.ndim == 3
        assert_same(base, before)
        return
    assert_same(inputs.reshape(8, -1)[MASK], rows)
    changed = (base != before).sum()
    assert int(changed) == rows.numel()


NOTHING = {
    "no parts": ([], torch.tensor([False] * 8)),
    "no parts, an index": ([], torch.tensor([], dtype=torch.int64)),
    "no parts, yet a placeholder": ([], MASK),
    "a part without rows": ([torch.zeros(0, H)], torch.tensor([False] * 8)),
    "a part without rows, an index": ([torch.zeros(0, H)], torch.tensor([], dtype=torch.int64)),
    "a part without rows, of another width": ([torch.zeros(0, H + 1)], torch.tensor([False] * 8)),
    "an empty tensor": (torch.zeros(0, 2, H), torch.tensor([False] * 8)),
    "an empty tuple": ((), torch.tensor([False] * 8)),
}


@pytest.mark.parametrize("case", NOTHING)
@pytest.mark.parametrize("shape", [(8, H), (2, 4, H)])
def test_case_6_nothing_to_do(merge, case, shape):
    parts, where = NOTHING[case]
    inputs = noise(1, *shape)
    before = inputs.clone()
    assert merge.patched(inputs, parts, where).data_ptr() == inputs.data_ptr()
    assert_same(inputs, before)
    merge.stock(inputs, parts, where)
    assert_same(inputs, before)


@pytest.mark.parametrize(
    "parts",
    [
        noise(2, 2, 2, H),
        [noise(2, 2, 2, H)],
        (noise(2, 1, H), noise(3, 3, H)),
        [[noise(2, 1, H), noise(3, 1, H)], noise(4, 2, H)],
        [noise(2, 1, H).expand(4, H)],
        [noise(2, H, 4).T],
    ],
)
def test_parts_may_be_nested_and_need_not_be_contiguous(merge, parts):
    for where in (MASK, as_index(MASK), torch.stack([MASK, ~MASK], -1)[:, 0], as_index(MASK).repeat_interleave(2)[::2]):
        stock, patched = noise(1, 8, H), noise(1, 8, H)
        merge.stock(stock, parts, where)
        merge.patched(patched, parts, where)
        assert_same(stock, patched)


def test_it_runs_in_inference_mode(merge):
    with torch.inference_mode():
        inputs, rows = noise(1, 8, H), noise(2, 4, H)
        assert_same(merge.patched(inputs.clone(), [rows], MASK), scattered(inputs, rows, MASK))


def test_it_is_called_by_keyword_as_vllms_models_do(merge):
    inputs = noise(1, 8, H)
    expected = scattered(inputs, noise(2, 4, H), MASK)
    merge.patched(inputs_embeds=inputs, multimodal_embeddings=[noise(2, 4, H)], is_multimodal=MASK)
    assert_same(inputs, expected)


def test_the_graph_is_closed_before_the_merge_as_in_stock(merge):
    counts = []
    for function in (merge.stock, merge.patched):
        merge.bridge.events.clear()
        function(noise(1, 8, H), [], MASK)
        function(noise(1, 8, H), [noise(2, 4, H)], MASK)
        counts.append(list(merge.bridge.events))
    assert counts[0] == counts[1] == ["mark_step"]
