"""Stand-in for vLLM's check of encoder outputs."""

import torch


def sanity_check_mm_encoder_outputs(outputs, expected_num_items):
    """One 2-D tensor for each item, in a list, a tuple or one 3-D tensor; or an AssertionError."""
    known = isinstance(outputs, list | tuple | torch.Tensor)
    assert known, f"Expected multimodal embeddings to be a list, but got {type(outputs)}"
    assert len(outputs) == expected_num_items, f"Expected {expected_num_items} outputs, got {len(outputs)}"
