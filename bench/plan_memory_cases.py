"""Vision towers and calls whose memory bench/fit_plan_memory.py measures, to fit `plan`'s estimate and to check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_shadow.planning.memory import Setting, Tower

QWEN3, QWEN2 = "qwen3_vl", "qwen2_vl"
PATCH_SIZE = {QWEN3: 16, QWEN2: 14}
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2}

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """One call of one tower.

    Attributes:
        purpose: "fit:" and the moment that is the fullest by far, or "check".
        formula: "qwen3_vl" or "qwen2_vl".
        hidden: width of a patch's state.
        intermediate: width inside the MLP.
        heads: attention heads.
        output: width of the language model.
        deepstack: layers whose features go to the language model.
        depth: layers.
        grids: t, h, w of each item, in patches.
        dtype: of the tower and of the pixels.
        tensor_parallel: processes that share the tower.
        attention: "fused" or "math".
    """

    purpose: str
    formula: str
    hidden: int
    intermediate: int
    heads: int
    output: int
    deepstack: tuple[int, ...]
    depth: int
    grids: tuple[Grid, ...]
    dtype: str = "float32"
    tensor_parallel: int = 1
    attention: str = "fused"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Case:
        """A case from its fields as JSON gives them back; `asdict` and `json` write them."""
        grids = tuple((t, h, w) for t, h, w in fields["grids"])
        return cls(**{**fields, "grids": grids, "deepstack": tuple(fields["deepstack"])})

    @property
    def patches(self) -> int:
        """Of the whole call."""
        return sum(t * h * w for t, h, w in self.grids)

    @property
    def longest_sequence(self) -> int:
        """Patches of the largest image or video step."""
        return max(h * w for _, h, w in self.grids)

    @property
    def tower(self) -> Tower:
        """As `plan` would read it from a model folder."""
        return Tower(
            self.formula,
            self.hidden,
            self.intermediate,
            self.heads,
            self.output,
            deepstack=len(self.deepstack),
            deepstack_held=sum(layer < self.depth - 1 for layer in self.deepstack),
            merged=4,
            pixels=3 * 2 * PATCH_SIZE[self.formula] ** 2,
        )

    @property
    def setting(self) -> Setting:
        """As `plan` would take it from the command line."""
        return Setting(ELEMENT_BYTES[self.dtype], self.tensor_parallel, self.attention == "fused")


TWO_IMAGES: Sequence[Grid] = ((1, 48, 64), (1, 32, 32))
MIXED: Sequence[Grid] = ((1, 64, 64), (1, 20, 100), (1, 2, 400), (1, 38, 50))
VIDEO: Sequence[Grid] = ((8, 24, 32),)


def _small(purpose: str, formula: str, *shape: int, split: int = 1, deepstack: tuple[int, ...] = ()) -> Case:
    hidden, intermediate, heads, output = shape
    return Case(
        purpose, formula, hidden, intermediate, heads, output, deepstack, 3, tuple(TWO_IMAGES), tensor_parallel=split
    )


FIT = (
    *(
        _small("fit:attention", QWEN3, h, h, heads, 256, split=n)
        for h, heads in ((256, 4), (512, 8))
        for n in (1, 2, 4)
    ),
    *(_small("fit:MLP", QWEN3, h, 16 * h, 4, 256, split=n) for h in (128, 256) for n in (1, 2)),
    *(_small("fit:results", QWEN3, h, h, 4, 8192, deepstack=d) for h in (128, 256) for d in ((), (0,), (0, 2))),
    *(
        _small("fit:attention", QWEN2, h, h, heads, 256, split=n)
        for h, heads in ((256, 4), (512, 8))
        for n in (1, 2, 4)
    ),
    *(_small("fit:MLP", QWEN2, h, 16 * h, 4, 256, split=n) for h in (128, 256) for n in (1, 2)),
    *(_small("fit:results", QWEN2, h, h, 4, 16384, split=n) for h in (128, 256) for n in (1, 2)),
)

# The widths of published models, with fewer layers: no layer adds to another's peak.
_QWEN3_4B = ("check", QWEN3, 1024, 4096, 16, 2560, (0, 1, 2))
_QWEN3_8B = ("check", QWEN3, 1152, 4304, 16, 4096, (0, 1, 2))
_QWEN3_32B = ("check", QWEN3, 1152, 4304, 16, 5120, (0, 1, 2))
_QWEN2_7B = ("check", QWEN2, 1280, 5120, 16, 3584, ())
CHECK = (
    Case(*_QWEN3_4B, 4, tuple(MIXED), "bfloat16"),
    Case(*_QWEN3_4B, 4, tuple(VIDEO), "float32"),
    Case(*_QWEN3_8B, 4, ((1, 64, 64),), "bfloat16"),
    Case(*_QWEN3_8B, 4, ((1, 64, 64),) * 2, "bfloat16"),
    Case(*_QWEN3_8B, 8, ((1, 64, 64),), "bfloat16"),
    Case(*_QWEN3_8B, 4, tuple(MIXED), "float32"),
    Case(*_QWEN3_32B, 4, tuple(MIXED), "bfloat16", tensor_parallel=2),
    Case(*_QWEN3_32B, 4, ((1, 96, 96),), "bfloat16"),
    Case(*_QWEN2_7B, 4, tuple(MIXED), "bfloat16"),
    Case(*_QWEN2_7B, 4, tuple(VIDEO), "float32"),
    Case(*_QWEN2_7B, 4, tuple(MIXED), "bfloat16", tensor_parallel=2),
    Case(*_QWEN3_8B, 4, ((1, 64, 64),), "float32", attention="math"),
    Case(*_QWEN3_8B, 4, ((1, 64, 64), (1, 32, 32)), "bfloat16", attention="math"),
)
