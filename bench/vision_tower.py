"""vLLM's own Qwen3-VL vision tower with random weights, and images as the features of a request. Needs vLLM 0.30.0."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

TOWER = {
    "depth": 2,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_heads": 4,
    "out_hidden_size": 256,
    "deepstack_visual_indexes": [],
}
PATCH_VALUES = 3 * 2 * 16 * 16  # channels, frames of a temporal patch, and a patch's height and width in pixels


def make_model() -> Any:
    """Qwen3-VL for conditional generation with nothing but its vision tower: random weights, bfloat16."""
    import torch
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.model_executor.models.qwen3_vl import Qwen3_VisionTransformer, Qwen3VLForConditionalGeneration

    with set_current_vllm_config(VllmConfig()):
        meeting = Path(os.environ["VLLM_CACHE_ROOT"]).resolve() / f"meeting-{os.getpid()}"
        meeting.parent.mkdir(parents=True, exist_ok=True)
        parallel_state.init_distributed_environment(1, 0, f"file://{meeting}", 0, "gloo")
        parallel_state.ensure_model_parallel_initialized(1, 1)
        torch.set_default_dtype(torch.bfloat16)
        tower = Qwen3_VisionTransformer(Qwen3VLVisionConfig(**TOWER))
        torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    for weights in tower.parameters():
        torch.nn.init.normal_(weights, 0, 0.05)
    model = Qwen3VLForConditionalGeneration.__new__(Qwen3VLForConditionalGeneration)
    torch.nn.Module.__init__(model)
    model.visual, model.use_data_parallel, model.is_multimodal_pruning_enabled = tower, False, False
    return model


def features(images: int, side: int) -> list[Any]:
    """Images of side x side patches, as vLLM's own field configs make items of what a processor gives."""
    import torch
    from vllm.model_executor.models.qwen2_vl import _create_qwen2vl_field_factory
    from vllm.multimodal.inputs import MultiModalFeatureSpec, MultiModalKwargsItems, PlaceholderRange

    grid = torch.tensor([[1, side, side]] * images)
    pixels = torch.empty(images * side * side, PATCH_VALUES, dtype=torch.bfloat16).normal_()
    inputs = {"image_grid_thw": grid, "pixel_values": pixels}
    items = MultiModalKwargsItems.from_hf_inputs(inputs, _create_qwen2vl_field_factory(2)(inputs))["image"]
    tokens = side * side // 4
    return [
        MultiModalFeatureSpec(
            data=item,
            modality="image",
            identifier=f"image-{number}",
            mm_position=PlaceholderRange(offset=tokens * number, length=tokens),
        )
        for number, item in enumerate(items)
    ]
