"""The demo's work in one interpreter, stock or patched: it imports the target modules as vLLM would and uses them.

Run as `python -m gaudi_shadow.demo.scenario FILE` it would import us; it is run by its path instead, in an interpreter
that knows of gaudi-shadow what its environment says and nothing else. It writes its findings to FILE as JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Run by path, this file's folder is sys.path[0]; only `card` is wanted from it.
FOLDER = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == FOLDER:
    del sys.path[0]

PATCHES_PER_IMAGE = 1024
IMAGES = 7
CARD_MEMORY = 4 * PATCHES_PER_IMAGE
MASK_LIMIT = 1 << 15
HIDDEN = 64


def load_card() -> Any:
    """The module `card` beside this file, without its folder on sys.path."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("gaudi_shadow_demo_card", os.path.join(FOLDER, "card.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digest(tensors: Any) -> str:
    """A short hash of the bits of some tensors."""
    import torch

    return hashlib.sha256(b"".join(t.contiguous().view(torch.uint8).numpy().tobytes() for t in tensors)).hexdigest()[
        :12
    ]


def in_words(error: Exception) -> str:
    """An error and its cause in one line."""
    cause = f" (from {type(error.__cause__).__name__}: {error.__cause__})" if error.__cause__ else ""
    return f"{type(error).__name__}: {error}{cause}"


def image(number: int, *, stripped: bool = False) -> Any:
    """One image as vLLM hands it to the runner: pixels that differ by image, and a grid that stays on the CPU."""
    import torch
    from vllm.multimodal.inputs import MultiModalBatchedField, MultiModalFieldElem, MultiModalKwargsItem

    pixels = torch.rand(PATCHES_PER_IMAGE, generator=torch.Generator().manual_seed(number))
    grid = torch.tensor([1, 32, PATCHES_PER_IMAGE // 32])
    fields = {"image_grid_thw": MultiModalFieldElem(data=grid, field=MultiModalBatchedField(keep_on_cpu=True))}
    if not stripped:
        fields["pixel_values"] = MultiModalFieldElem(data=pixels, field=MultiModalBatchedField())
    return SimpleNamespace(
        identifier=f"image-{number}",
        modality="image",
        data=MultiModalKwargsItem(fields),
        mm_position=SimpleNamespace(offset=0, length=PATCHES_PER_IMAGE // 4, is_embed=None),
    )


def encode(runner_class: Any, model: Any, features: list[Any]) -> dict[str, Any]:
    """One encoder step of one request; what was called, what the cache holds, and the error if there was one."""
    runner = SimpleNamespace(
        model=model,
        requests={"request": SimpleNamespace(mm_features=features)},
        encoder_cache={},
        uses_mrope=True,
        device="cpu",
        pin_memory=False,
    )
    error = None
    try:
        runner_class._execute_mm_encoder(runner, None, ["request"])
    except Exception as raised:
        error = in_words(raised)
    cache = runner.encoder_cache
    return {"calls": model.calls, "cached": sorted(cache), "digest": digest(cache.values()), "error": error}


def merge(utils: Any, compiler: Any) -> dict[str, Any]:
    """Rows of eight images into one step's embeddings, by a bool mask."""
    import torch

    torch.manual_seed(0)
    embeddings = torch.zeros(2048, HIDDEN, dtype=torch.bfloat16)
    mask = torch.zeros(2048, dtype=torch.bool)
    mask[torch.randperm(2048)[:1024]] = True
    parts = list(torch.split(torch.randn(1024, HIDDEN), 128))
    error = None
    try:
        with compiler:
            embeddings = utils._merge_multimodal_embeddings(embeddings, parts, mask)
    except Exception as raised:
        error = in_words(raised)
    return {"rows": int(mask.sum()), "digest": digest([embeddings]), "error": error}


def main(output: str) -> None:
    """Run everything and write the findings."""
    import torch
    import vllm_gaudi.models.utils as utils
    from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner

    card = load_card()
    images = [image(number) for number in range(IMAGES)]
    with_covered = [image(0, stripped=True), image(1)]
    findings: dict[str, Any] = {
        "encoder": encode(HPUModelRunner, card.VisionModel(CARD_MEMORY), images),
        "encoder_on_a_large_card": encode(HPUModelRunner, card.VisionModel(None), images),
        "merge": merge(utils, card.GraphCompiler(MASK_LIMIT)),
        "merge_without_limit": merge(utils, contextlib.nullcontext()),
        "covered": encode(HPUModelRunner, card.VisionModel(None), with_covered),
        "torch": torch.__version__,
        "file": utils.__file__,
    }
    hook = sys.modules.get("gaudi_shadow")
    findings["status"] = hook.status() if hook is not None else None
    Path(output).write_text(json.dumps(findings), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
