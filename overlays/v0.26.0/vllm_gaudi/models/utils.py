"""mm-merge-idxcopy for vllm_gaudi.models.utils; what is not defined here is stock."""


def _merge_multimodal_embeddings(inputs_embeds, multimodal_embeddings, is_multimodal):
    """Write the multimodal rows over their placeholders in `inputs_embeds`, in place (gaudi-shadow)."""
    if not len(multimodal_embeddings):
        return inputs_embeds

    import habana_frameworks.torch.core as htcore

    from gaudi_shadow.fixes.mm_merge_idxcopy import write_rows

    htcore.mark_step()
    return write_rows(
        inputs_embeds,
        _flatten_embeddings(multimodal_embeddings),
        is_multimodal,
        count_expression=lambda: _embedding_count_expression(multimodal_embeddings),
    )
