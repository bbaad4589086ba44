"""Stand-in for vllm_gaudi.models.utils: a merge with the stock fault, in our own words."""

import torch
from vllm.model_executor.models import utils
from vllm.model_executor.models.utils import _embedding_count_expression, _flatten_embeddings


def sequence_parallel_chunk(x: torch.Tensor) -> torch.Tensor:
    """A stock function that no fix touches."""
    return x


def _merge_multimodal_embeddings(
    inputs_embeds: torch.Tensor, multimodal_embeddings, is_multimodal: torch.Tensor
) -> torch.Tensor:
    """The stand-in's stock merge: a broadcast mask, which the Gaudi graph compiler refuses at size."""
    if not len(multimodal_embeddings):
        return inputs_embeds
    import habana_frameworks.torch.core as htcore

    htcore.mark_step()
    source = _flatten_embeddings(multimodal_embeddings).to(inputs_embeds.dtype)
    rows = inputs_embeds.view(-1, inputs_embeds.shape[-1])
    if is_multimodal.dtype is torch.bool:
        try:
            rows.masked_scatter_(is_multimodal.unsqueeze(-1), source)
        except RuntimeError as error:
            words = _embedding_count_expression(multimodal_embeddings)
            wanted = int(is_multimodal.sum())
            if len(source) == wanted:
                raise
            raise ValueError(
                f"Attempted to assign {words} = {len(source)} multimodal tokens to {wanted} placeholders"
            ) from error
    else:
        rows.index_copy_(0, is_multimodal, source)
    return inputs_embeds


utils._merge_multimodal_embeddings = _merge_multimodal_embeddings
