"""The models whose processors and towers are known here, by the `model_type` of their config.json."""

from __future__ import annotations

from dataclasses import dataclass

from gaudi_shadow.planning.resize import ResizeRules

Limits = tuple[int, int]


@dataclass(frozen=True)
class Family:
    """One line of models.

    Attributes:
        title: for people.
        patch_size: of the published models, in pixels.
        image_limits: least and most pixels of the published models' images.
        video_limits: the same for videos.
        video_counts_frames: see ResizeRules.counts_frames.
        tower: which formula of memory.py holds for its vision tower; None when vllm-gaudi runs a tower of its own.
        deepstack_layers: those that feed the language model directly, where the config does not say.
        notes: what vllm-gaudi does otherwise for these models, one line each.
    """

    title: str
    patch_size: int
    image_limits: Limits
    video_limits: Limits
    video_counts_frames: bool
    tower: str | None
    deepstack_layers: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


_QWEN2_LIMITS = (3_136, 12_845_056)
_QWEN3_IMAGE_LIMITS = (65_536, 16_777_216)
_QWEN3_VIDEO_LIMITS = (4_096, 25_165_824)

_QWEN2_VL = Family("Qwen2-VL", 14, _QWEN2_LIMITS, _QWEN2_LIMITS, False, "qwen2_vl")
_QWEN2_5_VL = Family(
    "Qwen2.5-VL",
    14,
    _QWEN2_LIMITS,
    _QWEN2_LIMITS,
    False,
    tower=None,
    notes=(
        "vllm-gaudi has a vision tower of its own for this model, which takes the images of a call one by one: a "
        "budget hardly lowers its peak, and there is no estimate for it",
        "vllm-gaudi enlarges this model's images to at least 12,544 pixels: add --min-pixels 12544 for the same",
    ),
)
_QWEN3_VL = Family("Qwen3-VL", 16, _QWEN3_IMAGE_LIMITS, _QWEN3_VIDEO_LIMITS, True, "qwen3_vl", (8, 16, 24))
_QWEN3_5 = Family("Qwen3.5", 16, _QWEN3_IMAGE_LIMITS, _QWEN3_VIDEO_LIMITS, True, "qwen3_vl")

FAMILIES = {
    "qwen2_vl": _QWEN2_VL,
    "qwen2_5_vl": _QWEN2_5_VL,
    "qwen3_vl": _QWEN3_VL,
    "qwen3_vl_moe": _QWEN3_VL,
    "qwen3_5": _QWEN3_5,
    "qwen3_5_moe": _QWEN3_5,
}

# Without a model folder the patch size tells the family; the families that share one are resized alike.
FAMILY_BY_PATCH_SIZE = {14: "qwen2_vl", 16: "qwen3_vl"}


def published_rules(
    family: Family, *, patch_size: int, merge_size: int, temporal_patch_size: int
) -> tuple[ResizeRules, ResizeRules]:
    """The rules for images and for videos with the published limits."""
    sizes = (patch_size, merge_size, temporal_patch_size)
    images = ResizeRules(*sizes, *family.image_limits)
    return images, ResizeRules(*sizes, *family.video_limits, counts_frames=family.video_counts_frames)
