"""Model folders for the tests of `gaudi-shadow plan`: config.json and processor files, no weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

QWEN3_SIZE = {"shortest_edge": 65_536, "longest_edge": 16_777_216}
QWEN3_VIDEO_SIZE = {"shortest_edge": 4_096, "longest_edge": 25_165_824}
QWEN3_IMAGE = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 16, "merge_size": 2, "size": QWEN3_SIZE}
QWEN3_VIDEO = {"video_processor_type": "Qwen3VLVideoProcessor", "patch_size": 16, "size": QWEN3_VIDEO_SIZE}
QWEN2_IMAGE = {"patch_size": 14, "merge_size": 2, "min_pixels": 3_136, "max_pixels": 12_845_056}

QWEN3_CONFIG = {
    "model_type": "qwen3_vl",
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "out_hidden_size": 5120,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "deepstack_visual_indexes": [8, 16, 24],
    },
}
QWEN2_CONFIG = {
    "model_type": "qwen2_vl",
    "vision_config": {"embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "hidden_size": 3584, "depth": 32},
}
QWEN2_5_CONFIG = {"model_type": "qwen2_5_vl", "vision_config": {"hidden_size": 1280, "out_hidden_size": 3584}}

Files = Mapping[str, Any]

FOLDERS: dict[str, Files] = {
    "Qwen3-VL as published": {
        "config.json": QWEN3_CONFIG,
        "preprocessor_config.json": {**QWEN3_IMAGE, "image_processor_type": "Qwen2VLImageProcessorFast"},
        "video_preprocessor_config.json": QWEN3_VIDEO,
    },
    "Qwen3-VL as transformers 5 saves it": {
        "config.json": QWEN3_CONFIG,
        "processor_config.json": {"image_processor": QWEN3_IMAGE, "video_processor": QWEN3_VIDEO},
    },
    "Qwen3-VL, saved and published files together": {
        "config.json": QWEN3_CONFIG,
        "processor_config.json": {"image_processor": QWEN3_IMAGE, "video_processor": QWEN3_VIDEO},
        "preprocessor_config.json": {**QWEN3_IMAGE, "size": {"shortest_edge": 1024, "longest_edge": 4096}},
        "video_preprocessor_config.json": {**QWEN3_VIDEO, "size": {"shortest_edge": 1024, "longest_edge": 4096}},
    },
    "Qwen3-VL, processor_config.json without settings": {
        "config.json": QWEN3_CONFIG,
        "processor_config.json": {"processor_class": "Qwen3VLProcessor"},
        "preprocessor_config.json": QWEN3_IMAGE,
        "video_preprocessor_config.json": QWEN3_VIDEO,
    },
    "Qwen3-VL without a video file": {
        "config.json": QWEN3_CONFIG,
        "preprocessor_config.json": {**QWEN3_IMAGE, "image_processor_type": "Qwen2VLImageProcessorFast"},
    },
    "Qwen3-VL without a video file, where the image processor's name leads to another": {
        "config.json": QWEN3_CONFIG,
        "preprocessor_config.json": QWEN3_IMAGE,
    },
    "Qwen3-VL, older names of the limits": {
        "config.json": QWEN3_CONFIG,
        "preprocessor_config.json": {"patch_size": 16, "min_pixels": 4_096, "max_pixels": 1_048_576},
        "video_preprocessor_config.json": {**QWEN3_VIDEO, "min_pixels": 1, "max_pixels": 2},
    },
    "Qwen3-VL, the processors' defaults": {
        "config.json": QWEN3_CONFIG,
        "preprocessor_config.json": {"patch_size": 16},
        "video_preprocessor_config.json": {"video_processor_type": "Qwen3VLVideoProcessor"},
    },
    "Qwen3.5": {
        "config.json": {"model_type": "qwen3_5", "vision_config": {"out_hidden_size": 2048}},
        "preprocessor_config.json": QWEN3_IMAGE,
        "video_preprocessor_config.json": QWEN3_VIDEO,
    },
    "Qwen2-VL as published": {"config.json": QWEN2_CONFIG, "preprocessor_config.json": QWEN2_IMAGE},
    "Qwen2-VL, limits in both forms": {
        "config.json": QWEN2_CONFIG,
        "preprocessor_config.json": {**QWEN2_IMAGE, "size": {"shortest_edge": 1, "longest_edge": 2}},
    },
    "Qwen2-VL with a video file": {
        "config.json": QWEN2_CONFIG,
        "preprocessor_config.json": QWEN2_IMAGE,
        "video_preprocessor_config.json": {"video_processor_type": "Qwen2VLVideoProcessor", "max_pixels": 501_760},
    },
    "Qwen2-VL, only one limit": {
        "config.json": QWEN2_CONFIG,
        "preprocessor_config.json": {"patch_size": 14, "max_pixels": 501_760},
    },
    "Qwen2.5-VL as published": {"config.json": QWEN2_5_CONFIG, "preprocessor_config.json": QWEN2_IMAGE},
}


def write_folder(folder: Path, files: Files) -> Path:
    """Write the files, text as it is and all else as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder
