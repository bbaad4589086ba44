"""Runs cases of plan_memory_cases.py in vLLM's real vision towers on the CPU and prints what each took, in bytes.

Started by fit_plan_memory.py, as one process or as several that share a tower: `plan_tower.py CASES RANK PORT
allocator|rss`, CASES a JSON list of cases with the same number of processes.

allocator: the most bytes that PyTorch's CPU allocator had handed out during the call, from torch's profiler, and the
pixels, which are made before. rss: the most resident memory of the process, pixels included, as the kernel counted it.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from plan_memory_cases import PATCH_SIZE, QWEN3, Case

# gloo's threads let go of what they have sent a little later, by luck: the least of some runs counts.
REPEATS = 6


@contextmanager
def vllm_on_the_cpu(ranks: int, rank: int, port: int) -> Iterator[None]:
    """What vLLM needs before it builds a layer."""
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    vllm.platforms._current_platform = CpuPlatform()
    import vllm.utils.torch_utils

    vllm.utils.torch_utils.PIN_MEMORY = False
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel

    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(ranks, rank, f"tcp://127.0.0.1:{port}", rank, "gloo")
        initialize_model_parallel(ranks, 1)
        yield


def build(case: Case) -> Any:
    """The tower with random weights."""
    torch.set_default_dtype(getattr(torch, case.dtype))
    shared = {"depth": case.depth, "num_heads": case.heads, "patch_size": PATCH_SIZE[case.formula]}
    if case.formula == QWEN3:
        from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
        from vllm.model_executor.models.qwen3_vl import Qwen3_VisionTransformer

        tower = Qwen3_VisionTransformer(
            Qwen3VLVisionConfig(
                hidden_size=case.hidden,
                intermediate_size=case.intermediate,
                out_hidden_size=case.output,
                deepstack_visual_indexes=list(case.deepstack),
                **shared,
            )
        )
    else:
        from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
        from vllm.model_executor.models.qwen2_vl import Qwen2VisionTransformer

        ratio = case.intermediate // case.hidden
        tower = Qwen2VisionTransformer(
            Qwen2VLVisionConfig(embed_dim=case.hidden, mlp_ratio=ratio, hidden_size=case.output, **shared)
        )
    for parameter in tower.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    for layer in tower.modules():
        if hasattr(layer, "quant_method"):  # vLLM sets it when it loads weights
            layer.cpu_linear = torch.nn.functional.linear
    return tower


def by_allocator(case: Case, tower: Any) -> int:
    """Peak of what the allocator had handed out."""
    pixels = torch.zeros(case.patches, case.tower.pixels)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        tower(pixels, [list(grid) for grid in case.grids])
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    peak: int = max(accumulate(changes)) + pixels.nbytes
    return peak


def by_resident_memory(case: Case, tower: Any) -> int:
    """Peak of the process over what it was before the pixels."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark starts again
    before = _status("VmRSS")
    pixels = torch.full((case.patches, case.tower.pixels), 0.5)
    tower(pixels, [list(grid) for grid in case.grids])
    return _status("VmHWM") - before


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def taken(case: Case, way: str) -> int:
    """Build the tower, warm it up, and measure one call."""
    attention = sdpa_kernel(SDPBackend.MATH) if case.attention == "math" else nullcontext()
    with torch.inference_mode(), attention:
        tower = build(case)
        tower(torch.zeros(16, case.tower.pixels), [[1, 4, 4]])
        gc.collect()
        measure = by_allocator if way == "allocator" else by_resident_memory
        return min(measure(case, tower) for _ in range(REPEATS if case.tensor_parallel > 1 else 1))


def main() -> None:
    """Measure; rank 0 prints one line for each case."""
    text, rank, port, way = sys.argv[1:]
    cases = [Case.from_json(fields) for fields in json.loads(text)]
    torch.set_num_threads(1)
    with vllm_on_the_cpu(cases[0].tensor_parallel, int(rank), int(port)):
        for case in cases:
            size = taken(case, way)
            if rank == "0":
                print("TAKEN", size, flush=True)


if __name__ == "__main__":
    main()
