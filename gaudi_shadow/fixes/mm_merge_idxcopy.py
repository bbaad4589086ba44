"""mm-merge-idxcopy: merge multimodal rows with nonzero and index_copy_ instead of a broadcast masked_scatter_.

`mask.unsqueeze(-1)` makes a stride-0 mask that the Gaudi graph compiler cannot lower at the sizes which concurrent
multi-image steps reach. index_copy_ is what the stock function's integer-index branch uses already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gaudi_shadow import counters

if TYPE_CHECKING:
    import torch


def configure(on: bool) -> str:
    """Nothing to read and nothing to report: the fix is in the grafted function."""
    return ""


def write_rows(
    inputs_embeds: torch.Tensor,
    rows: torch.Tensor,
    where: torch.Tensor,
    count_expression: Callable[[], str],
) -> torch.Tensor:
    """Write `rows` over the placeholder rows of `inputs_embeds`, in place.

    Args:
        inputs_embeds: (tokens, hidden) or (batch, length, hidden), float.
        rows: (placeholders, hidden), any float dtype; cast to that of `inputs_embeds`.
        where: which rows: a bool mask of shape (tokens,) or (batch * length,), or an int64 index of shape
            (placeholders,) into the flat rows (M-RoPE models).
        count_expression: the item sizes in words ("3 + 3"), for the error.

    Returns:
        `inputs_embeds` itself.

    Raises:
        ValueError: the numbers of rows and of placeholders differ (with stock's text), or the mask is not one flag
            a row; the tensor is then as it was.
        RuntimeError: a 3-D input whose rows cannot be seen as one flat tensor without a copy.
    """
    import torch

    flat = inputs_embeds if inputs_embeds.ndim == 2 else inputs_embeds.view(-1, inputs_embeds.shape[-1])
    index = where
    if where.dtype is torch.bool:
        if where.shape != flat.shape[:1]:
            raise ValueError(
                f"Error during masked scatter operation: the mask has shape {tuple(where.shape)}, "
                f"the embeddings have {flat.shape[0]} rows"
            )
        index = where.nonzero().squeeze(-1)
    _count("merges")
    if index.shape[0] != rows.shape[0]:
        _count("merge_mismatches")
        raise ValueError(
            f"Attempted to assign {count_expression()} = {rows.shape[0]} "
            f"multimodal tokens to {index.shape[0]} placeholders"
        )
    if rows.shape[0]:
        flat.index_copy_(0, index, rows.to(dtype=flat.dtype))
    return inputs_embeds


def _count(name: str) -> None:
    import torch

    if not torch.compiler.is_compiling():  # a counter that a compiled graph reads makes it compile anew at each call
        counters.add(name)
