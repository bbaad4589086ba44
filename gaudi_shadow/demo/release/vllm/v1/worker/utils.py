"""Stand-in for vLLM's check of encoder outputs."""


def sanity_check_mm_encoder_outputs(outputs, expected_num_items):
    """One 2-D tensor for each item, or an AssertionError."""
    assert isinstance(outputs, list | tuple), f"Expected multimodal embeddings to be a list, but got {type(outputs)}"
    assert len(outputs) == expected_num_items, f"Expected {expected_num_items} outputs, got {len(outputs)}"
