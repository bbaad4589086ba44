"""The patched merge against the broadcast masked_scatter_ and stock, over shapes, dtypes, masks and parts."""

from __future__ import annotations

import itertools

import fix_helpers
import pytest
from fix_helpers_parts import assert_same, torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

SETTINGS = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@pytest.fixture(scope="module", params=fix_helpers.TREES)
def merge(request):
    return fix_helpers.merge(request, request.param)


def any_bits(seed, dtype, *shape):
    """Floats of any bits at all: NaNs of every kind, infinities, subnormals."""
    whole = WHOLE[torch.empty((), dtype=dtype).element_size()]
    limits = torch.iinfo(whole)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(limits.min, limits.max, shape, dtype=whole, generator=generator).view(dtype)


@st.composite
def merges(draw):
    """(inputs, rows, mask): rows fit the mask."""
    lead = draw(st.sampled_from([(0,), (1,), (7,), (33,), (1, 5), (2, 4), (3, 0), (4, 9)]))
    hidden = draw(st.sampled_from([1, 2, 5, 16, 33]))
    target, source = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(DTYPES))
    tokens = lead[0] if len(lead) == 1 else lead[0] * lead[1]
    fill = draw(st.sampled_from(["any", "none", "all"]))
    flags = st.booleans() if fill == "any" else st.just(fill == "all")
    mask = torch.tensor(draw(st.lists(flags, min_size=tokens, max_size=tokens)), dtype=torch.bool)
    seed = draw(st.integers(0, 2**16))
    return any_bits(seed, target, *lead, hidden), any_bits(seed + 1, source, int(mask.sum()), hidden), mask


def cut(rows, cuts):
    """The rows as a list of parts, some of which may be empty."""
    edges = [0, *sorted(min(each, len(rows)) for each in cuts), len(rows)]
    return [rows[left:right] for left, right in itertools.pairwise(edges)]


CUTS = st.lists(st.integers(0, 30), max_size=4)


@SETTINGS
@given(merges(), CUTS)
def test_a_mask_gives_the_bits_of_masked_scatter_and_of_stock(merge, case, cuts):
    inputs, rows, mask = case
    expected, stock = inputs.clone(), inputs.clone()
    expected.view(len(mask), inputs.shape[-1]).masked_scatter_(mask.unsqueeze(-1), rows.to(inputs.dtype))
    merge.stock(stock, cut(rows, cuts), mask)
    assert_same(stock, expected)
    assert_same(merge.patched(inputs, cut(rows, cuts), mask), expected)
    assert_same(inputs, expected)


@SETTINGS
@given(merges(), CUTS, st.randoms(use_true_random=False))
def test_an_index_gives_the_same_bits_in_its_own_order(merge, case, cuts, random):
    inputs, rows, mask = case
    order = list(range(len(rows)))
    random.shuffle(order)
    index = mask.nonzero().squeeze(-1)[order]
    expected = inputs.clone()
    expected.view(len(mask), inputs.shape[-1])[index] = rows[order].to(inputs.dtype)
    merge.patched(inputs, cut(rows[order], cuts), index)
    assert_same(inputs, expected)


@SETTINGS
@given(merges(), CUTS, st.integers(-3, 3).filter(bool), st.booleans())
def test_any_mismatch_is_the_error_and_leaves_every_bit(merge, case, cuts, surplus, by_index):
    inputs, rows, mask = case
    wanted = len(rows)
    assume(wanted + surplus >= 0)
    wrong = any_bits(3, rows.dtype, wanted + surplus, inputs.shape[-1])
    parts = cut(wrong, cuts)
    before = inputs.clone()
    with pytest.raises(ValueError) as caught:
        merge.patched(inputs, parts, mask.nonzero().squeeze(-1) if by_index else mask)
    sizes = " + ".join(str(len(part)) for part in parts)
    text = f"Attempted to assign {sizes} = {len(wrong)} multimodal tokens to {wanted} placeholders"
    assert str(caught.value) == text
    assert_same(inputs, before)
