"""Tiny random vision-language models, saved as model folders; always the same bits.

FAMILIES: "qwen3vl" (M-RoPE, images in their own size, video, deepstack; its merge gets an index), "llava" and "gemma3"
(no M-RoPE, images of one size; their merge gets a bool mask). The weights are large enough (std 0.3) that every image
changes its answer: load_format="dummy" gives weights so small that it hardly does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

IMAGE_WORD = {
    "qwen3vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "llava": "<image>",
    "gemma3": "<start_of_image>",
}
VIDEO_WORD = {"qwen3vl": "<|vision_start|><|video_pad|><|vision_end|>"}
SPECIAL = {
    "qwen3vl": ["<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"],
    "llava": ["<|endoftext|>", "<image>"],
    # Gemma 3's processor looks the line ends up by name.
    "gemma3": ["<|endoftext|>", "<bos>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    + ["\n" * n for n in (1, 2, 3, 4)],
}
GEMMA_NAMES = {
    "boi_token": "<start_of_image>",
    "eoi_token": "<end_of_image>",
    "image_token": "<image_soft_token>",
}
TEXT = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 32768,
}
TOWER = {"hidden_size": 128, "intermediate_size": 256}
FIXED_TOWER = {**TOWER, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 112, "patch_size": 14}
LARGEST_PIXELS = 1024 * 1024  # the largest image sets the least size of vLLM's encoder cache: 1,024 tokens


def make_tokenizer(family: str) -> Any:
    """One token a byte, and the family's special tokens after them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL[family]])
    extra = {"extra_special_tokens": GEMMA_NAMES, "bos_token": "<bos>"} if family == "gemma3" else {}
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end, **extra)


def _qwen3vl(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    patches = {"patch_size": 16, "temporal_patch_size": 2}
    config = hf.Qwen3VLConfig(
        text_config={**TEXT, "eos_token_id": tokenizer.eos_token_id, "rope_parameters": rope},
        vision_config={
            **TOWER,
            **patches,
            "depth": 2,
            "num_heads": 4,
            "spatial_merge_size": 2,
            "out_hidden_size": TEXT["hidden_size"],
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=False,
    )
    size = {"shortest_edge": 32 * 32, "longest_edge": LARGEST_PIXELS}
    options = {**patches, "merge_size": 2, "size": size, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    images, videos = hf.Qwen2VLImageProcessorPil(**options), hf.Qwen3VLVideoProcessor(**options)
    return hf.Qwen3VLForConditionalGeneration(config), hf.Qwen3VLProcessor(images, tokenizer, videos)


def _llava(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    config = hf.LlavaConfig(
        text_config={**TEXT, "model_type": "llama", "eos_token_id": tokenizer.eos_token_id},
        vision_config={**FIXED_TOWER, "model_type": "clip_vision_model", "projection_dim": 64},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        image_seq_length=64,
    )
    edge = FIXED_TOWER["image_size"]
    processor = hf.LlavaProcessor(
        hf.CLIPImageProcessorPil(size={"shortest_edge": edge}, crop_size={"height": edge, "width": edge}),
        tokenizer,
        patch_size=FIXED_TOWER["patch_size"],
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
    )
    return hf.LlavaForConditionalGeneration(config), processor


def _gemma3(tokenizer: Any) -> tuple[Any, Any]:
    import transformers as hf

    ids = tokenizer.convert_tokens_to_ids
    tokens = {"eos": tokenizer.eos_token_id, "pad": tokenizer.pad_token_id, "bos": ids("<bos>")}
    config = hf.Gemma3Config(
        text_config={
            **TEXT,
            **{f"{name}_token_id": number for name, number in tokens.items()},
            "sliding_window": 512,
            "query_pre_attn_scalar": 16,
        },
        vision_config={**FIXED_TOWER, "model_type": "siglip_vision_model", "vision_use_head": False},
        mm_tokens_per_image=16,
        boi_token_index=ids("<start_of_image>"),
        eoi_token_index=ids("<end_of_image>"),
        image_token_index=ids("<image_soft_token>"),
    )
    edge = FIXED_TOWER["image_size"]
    images = hf.Gemma3ImageProcessorPil(size={"height": edge, "width": edge})
    return hf.Gemma3ForConditionalGeneration(config), hf.Gemma3Processor(images, tokenizer, image_seq_length=16)


FAMILIES: dict[str, Callable[[Any], tuple[Any, Any]]] = {"qwen3vl": _qwen3vl, "llava": _llava, "gemma3": _gemma3}


def _randomise(family: str, model: Any, std: float) -> None:
    for name, weights in model.named_parameters():
        weights.normal_(0, std)
        if "norm" in name and name.endswith("weight"):
            weights.add_(3 if family == "gemma3" and "language_model" in name else 1)
        # Without sharp attention, many images average out to one and the same token.
        if family == "qwen3vl" and ("q_norm" in name or "k_norm" in name):
            weights.mul_(2)
        # Gemma's embeddings are tied to its output: unless its layers outweigh them, an answer repeats one token.
        if family == "gemma3" and "embed_tokens" in name:
            weights.mul_(0.4)


def _restore_tower_level(folder: Path) -> None:
    """transformers 5 leaves out a level of names that published checkpoints have and vLLM wants."""
    from safetensors.torch import load_file, save_file

    path, level = folder / "model.safetensors", "vision_model."
    weights = {
        name.replace("vision_tower.", "vision_tower." + level).replace(level * 2, level): tensor
        for name, tensor in load_file(path).items()
    }
    save_file(weights, path, {"format": "pt"})


def make_model(family: str, folder: Path, seed: int = 0, std: float = 0.3) -> Path:
    """Write a model folder unless it is there; needs transformers, and takes some seconds.

    Args:
        family: one of FAMILIES.
        folder: where config, weights (float32), tokenizer and processor go.
    """
    import torch

    done = folder / "done"
    if done.exists():
        return folder
    torch.manual_seed(seed)
    model, processor = FAMILIES[family](make_tokenizer(family))
    with torch.no_grad():
        _randomise(family, model, std)
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    if family != "qwen3vl":
        _restore_tower_level(folder)
    done.touch()
    return folder
