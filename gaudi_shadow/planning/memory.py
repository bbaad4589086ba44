"""An estimate of what one call of the vision tower adds to the device's memory while it runs.

It counts the tensors that are alive at the fullest moment of vLLM's own tower, run eagerly, and the pixels that the
call was given. bench/fit_plan_memory.py fits the counts to measurements on a CPU and checks them; see docs/plan.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
# PyTorch's own attention keeps two score matrices in float32 and one of bools, whatever the model's dtype.
SCORE_BYTES = 9


@dataclass(frozen=True)
class Tower:
    """A vision tower, from a model's config.json.

    Attributes:
        formula: "qwen3_vl" or "qwen2_vl", a key of MOMENTS.
        hidden: width of a patch's state, in elements.
        intermediate: width inside the MLP, in elements.
        heads: attention heads.
        output: width of the language model, in elements.
        deepstack: layers whose features go to the language model too.
        deepstack_held: those of them that lie before the last layer.
        merged: patches in one token.
        pixels: elements of one patch as it enters the tower.
    """

    formula: str
    hidden: int
    intermediate: int
    heads: int
    output: int
    deepstack: int
    deepstack_held: int
    merged: int
    pixels: int


@dataclass(frozen=True)
class Setting:
    """How the tower is run.

    Attributes:
        element_bytes: bytes of one element of its dtype.
        tensor_parallel: over how many devices its weights are split.
        fused_attention: the attention keeps no score matrix, as vllm-gaudi's FusedSDPA.
    """

    element_bytes: int = 2
    tensor_parallel: int = 1
    fused_attention: bool = True


def _held(tower: Tower) -> float:
    # The angles of the rotary embedding, and the deepstack features that wait for the end of the call.
    return tower.hidden / tower.heads + tower.deepstack_held * tower.output / tower.merged


def _qwen3_moments(tower: Tower, split: int) -> dict[str, float]:
    results = (1 + tower.deepstack) * tower.output / tower.merged
    return {
        "attention": (4 + 8 / split) * tower.hidden + _held(tower),
        "MLP": 4 * tower.hidden + 2 * tower.intermediate / split + _held(tower),
        "results": 2 * results + tower.hidden + tower.hidden / tower.heads,
    }


def _qwen2_moments(tower: Tower, split: int) -> dict[str, float]:
    # Split over devices, this tower gathers the whole of Q, K and V on each, and puts it in order in a copy.
    attention = 11 if split == 1 else max(6 + 8 / split, 8 + 3 / split)
    return {
        "attention": attention * tower.hidden + _held(tower),
        "MLP": 3 * tower.hidden + 3 * tower.intermediate / split + _held(tower),
        "results": tower.output / tower.merged + (2 + 1 / split) * tower.hidden + tower.hidden / tower.heads,
    }


MOMENTS: dict[str, Callable[[Tower, int], dict[str, float]]] = {"qwen3_vl": _qwen3_moments, "qwen2_vl": _qwen2_moments}


def elements_per_patch(tower: Tower, setting: Setting) -> dict[str, float]:
    """What is alive at the tower's full moments, in elements per patch, without the pixels and the score matrices."""
    return MOMENTS[tower.formula](tower, setting.tensor_parallel)


def transient_bytes(tower: Tower, setting: Setting, patches: int, longest_sequence: int) -> int:
    """The estimate for one call.

    Args:
        tower: the vision tower.
        setting: how it is run.
        patches: of the call.
        longest_sequence: patches of the largest image or video step in it, which attend to one another.
    """
    moments = elements_per_patch(tower, setting)
    plain = patches * (tower.pixels + max(moments.values())) * setting.element_bytes
    if setting.fused_attention:
        return round(plain)
    attending = patches * (tower.pixels + moments["attention"]) * setting.element_bytes
    scores = SCORE_BYTES * tower.heads / setting.tensor_parallel * longest_sequence**2
    return round(max(plain, attending + scores))


def result_bytes(tower: Tower, setting: Setting, patches: int) -> int:
    """What stays in the encoder cache after a call, deepstack features included."""
    return round(patches * (1 + tower.deepstack) * tower.output / tower.merged * setting.element_bytes)


def formula_lines(tower: Tower, setting: Setting) -> list[str]:
    """The estimate's formula with this tower's numbers."""
    moments = elements_per_patch(tower, setting)
    fullest = max(moments, key=lambda name: moments[name])
    per_patch = (tower.pixels + moments[fullest]) * setting.element_bytes
    listed = ", ".join(f"{name} {value:,.0f}" for name, value in moments.items())
    lines = [
        f"per call: patches x {setting.element_bytes} bytes x ({tower.pixels:,} of pixels + the largest of: {listed})"
        f" = patches x {per_patch:,.0f} bytes, full at: {fullest}"
    ]
    if not setting.fused_attention:
        lines.append(
            f"or, where the attention is not fused: patches x {setting.element_bytes} bytes x (pixels + attention) + "
            f"{SCORE_BYTES} bytes x {tower.heads / setting.tensor_parallel:g} heads x (patches of the largest image or "
            "video step) squared"
        )
    return lines
