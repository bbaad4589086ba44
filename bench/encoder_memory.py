"""Figure 1: peak memory and time of the encoder step over budgets, on vLLM's own Qwen3-VL vision tower.

    python bench/encoder_memory.py --root TREE --python VENV/bin/python

`HPUModelRunner._execute_mm_encoder` of a real release, stock and as the hook patches it, encodes 16 images of 1024x1024
(65,536 patches) with a tower of two layers and random weights. Each configuration runs in a process of its own, on one
thread, with an allocator that hands memory back, so that the resident size follows what is alive. The floor is one call
of a group's patches alone.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from measuring import Figures, arguments, paired_ratio, rounds, run
from vision_tower import TOWER, features, make_model
from worker import Worker, functions_of, serve

GIVES_BACK = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"}
MIB = 2**20


def sizes(small: bool) -> dict[str, Any]:
    """How many images, of how many patches a side, how many rounds, and the budgets as parts of the whole batch."""
    if small:
        return {"images": 4, "side": 16, "rounds": 1, "parts": [2, 4]}
    return {"images": 16, "side": 64, "rounds": 9, "parts": [2, 4, 8, 16]}


def measure(options: Any) -> Figures:
    """Stock, unset, each budget and each floor, once a round."""
    size = sizes(options.small)
    images, patches = size["images"], size["images"] * size["side"] ** 2
    worker = Worker(options, __file__, OMP_NUM_THREADS="1", **GIVES_BACK)
    kinds: dict[str, dict[str, Any]] = {"stock": {"kind": "stock"}, "unset": {"kind": "patched"}}
    for part in size["parts"]:
        kinds[f"1/{part}"] = {"kind": "patched", "budget": patches // part}
        kinds[f"floor 1/{part}"] = {"kind": "stock", "count": images // part}
    seen: dict[str, list[Any]] = {name: [] for name in kinds}

    def once(name: str) -> float:
        found = worker.ask("encode", **{"images": images, "side": size["side"], "count": images, **kinds[name]})
        seen[name].append(found)
        return float(found["cpu_s"])

    cpu = rounds(size["rounds"], kinds, once)
    worker.close()
    rows = {name: _row(seen[name], seen["stock"], cpu[name], cpu["stock"]) for name in kinds}
    whole = [row["hash"] for name, row in rows.items() if not name.startswith("floor")]
    return {
        "vllm": worker.setup.vllm_version,
        "patches": patches,
        "images": images,
        "tower": TOWER,
        "rounds": size["rounds"],
        "allocator": GIVES_BACK,
        "outputs_equal": len(set(whole)) == 1,
        "rows": rows,
    }


def _row(found: list[Any], stock: list[Any], cpu: list[float], stock_cpu: list[float]) -> dict[str, Any]:
    (digest,) = {each["hash"] for each in found}
    peaks, stock_peaks = ([each["peak_mib"] for each in values] for values in (found, stock))
    walls, stock_walls = ([each["wall_s"] for each in values] for values in (found, stock))
    return {
        "calls": found[0]["calls"],
        "peak_mib": statistics.median(peaks),
        "outputs_mib": found[0]["outputs_mib"],
        "cpu_s": statistics.median(cpu),
        "wall_s": statistics.median(walls),
        "peak_ratio": paired_ratio(peaks, stock_peaks),
        "cpu_ratio": paired_ratio(cpu, stock_cpu),
        "wall_ratio": paired_ratio(walls, stock_walls),
        "hash": digest,
    }


# What follows runs in the worker.


def memory(field: str) -> float:
    """VmRSS or VmHWM in MiB."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def encode(kind: str, images: int, side: int, count: int, budget: int = 0) -> dict[str, Any]:
    """Encode the first `count` of `images` images; peak over the resident size before it, and the time it took."""
    import torch

    from gaudi_shadow.fixes import mm_encoder_budget

    os.environ[mm_encoder_budget.VARIABLE] = str(budget)
    mm_encoder_budget.configure(True)
    torch.manual_seed(1)
    given = features(images, side)
    calls: list[int] = []
    _encode_once(kind, features(1, 4), calls)  # pages of libraries that a first call touches are not the batch's
    calls.clear()
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak starts anew
    wall, cpu = time.perf_counter(), time.process_time()
    cache = _encode_once(kind, given[:count], calls)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = memory("VmHWM") - before
    digest = hashlib.sha256()
    for identifier, output in cache.items():
        digest.update(identifier.encode() + output.contiguous().view(torch.uint8).numpy().tobytes())
    return {
        "peak_mib": peak,
        "cpu_s": cpu,
        "wall_s": wall,
        "calls": len(calls),
        "outputs_mib": sum(output.numel() * output.element_size() for output in cache.values()) / MIB,
        "hash": digest.hexdigest(),
    }


def _encode_once(kind: str, given: list[Any], calls: list[int]) -> dict[str, Any]:
    from types import SimpleNamespace

    import torch

    def embed(**batch: Any) -> Any:
        calls.append(int(batch["image_grid_thw"].prod(-1).sum()))
        return MODEL.embed_multimodal(**batch)

    runner = SimpleNamespace(
        requests={"request": SimpleNamespace(mm_features=given)},
        encoder_cache={},
        model=SimpleNamespace(embed_multimodal=embed),
        device="cpu",
        pin_memory=False,
        uses_mrope=True,
    )
    with torch.inference_mode():
        ENCODERS[kind](runner, None, ["request"])
    cache: dict[str, Any] = runner.encoder_cache
    return cache


if __name__ == "__main__":
    if sys.argv[1:] != ["--worker"]:
        sys.exit(run("encoder_memory", arguments(__doc__, real=True).parse_args(), measure))
    import vllm_gaudi.v1.worker.hpu_model_runner as runner_module
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    ENCODERS = functions_of(runner_module.HPUModelRunner._execute_mm_encoder, runner_module)
    MODEL = make_model()
    sys.exit(serve({"encode": encode}))
