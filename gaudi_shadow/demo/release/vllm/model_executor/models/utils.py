"""Stand-in for vLLM's own merge, which the Gaudi plugin replaces, and its helpers."""

import torch


def _flatten_embeddings(parts):
    if isinstance(parts, torch.Tensor):
        return parts.reshape(-1, parts.shape[-1])
    return torch.cat([_flatten_embeddings(part) for part in parts])


def _embedding_count_expression(parts):
    if isinstance(parts, torch.Tensor):
        return " x ".join(map(str, parts.shape[:-1]))
    return " + ".join(map(_embedding_count_expression, parts))


def _merge_multimodal_embeddings(inputs_embeds, multimodal_embeddings, is_multimodal):
    raise NotImplementedError("the plugin replaces this")
