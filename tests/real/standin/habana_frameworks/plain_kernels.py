"""The names of habana_frameworks that vllm-gaudi uses on the path of a small model, written in plain PyTorch."""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


class FusedSDPA:
    """habana_frameworks.torch.hpex.kernels.FusedSDPA."""

    @staticmethod
    def apply(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        dropout: float,
        is_causal: bool,
        scale: float | None,
        softmax_mode: str | None = None,
        recompute: bool | None = None,
        valid_lengths: torch.Tensor | None = None,
        *others: Any,
    ) -> torch.Tensor:
        """Attention over (batch, heads, length, head size); `valid_lengths` (batch,) tells how many keys count."""
        if k.shape[-3] != q.shape[-3]:
            times = q.shape[-3] // k.shape[-3]
            k, v = k.repeat_interleave(times, -3), v.repeat_interleave(times, -3)
        if valid_lengths is None or mask is not None:
            is_causal = is_causal and mask is None
            return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale)
        keep = torch.arange(k.shape[-2]) < valid_lengths.reshape(-1, 1)
        seen = keep[:, None, None, :].expand(-1, 1, q.shape[-2], -1)
        if is_causal:
            seen = seen & torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        return torch.nan_to_num(scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale))


class FusedRMSNorm:
    """habana_frameworks.torch.hpex.normalization.FusedRMSNorm."""

    @staticmethod
    def apply(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """`x` (..., hidden) over its root mean square, in float32, times `weight` (hidden,)."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


class RotaryPosEmbeddingMode(enum.Enum):
    """How the two parts of a rotated pair lie."""

    BLOCKWISE = 0
    PAIRWISE = 1


def apply_rotary_pos_emb(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:
    """Rotary positions on `x` (..., head size); `cos` and `sin` broadcast against it."""
    if mode is RotaryPosEmbeddingMode.BLOCKWISE:
        left, right = x.chunk(2, -1)
        turned = torch.cat((-right, left), -1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return (x * cos + turned * sin).to(x.dtype)


WRITTEN: dict[str, Any] = {
    "FusedSDPA": FusedSDPA,
    "FusedRMSNorm": FusedRMSNorm,
    "RotaryPosEmbeddingMode": RotaryPosEmbeddingMode,
    "apply_rotary_pos_emb": apply_rotary_pos_emb,
    "wrap_in_hpu_graph": lambda module, *args, **kwargs: module,
    "is_lazy": lambda: False,
    "mark_step": lambda *args, **kwargs: None,
    "synchronize": lambda *args, **kwargs: None,
}
