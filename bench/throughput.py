"""Figure 6: requests per second of the real engine, stock and patched, at several budgets.

    python bench/throughput.py --root TREE --python VENV/bin/python

One engine in one process serves the same requests with images again and again, now with the stock functions' code,
now with the patched, budget by budget. The prefix cache is off and the encoder cache is emptied before each turn. What
preprocessing makes of the images is cached by vLLM from the first turn on, so the encoder weighs as much as it can.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

from measuring import Figures, arguments, paired_ratio, rounds, run
from worker import BENCH, Worker, codes_of, serve

IMAGE_PATCHES = 32 * 32  # of 512x512 pixels


def sizes(small: bool) -> dict[str, Any]:
    """Requests, images of each, rounds, and budgets in images."""
    if small:
        return {"requests": 2, "images": 2, "rounds": 2, "budgets": [1]}
    return {"requests": 8, "images": 4, "rounds": 15, "budgets": [4, 2, 1]}


def measure(options: Any) -> Figures:
    """Every configuration once a round."""
    size = sizes(options.small)
    worker = Worker(options, __file__, OMP_NUM_THREADS="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    ready = worker.ask("start", folder=str(worker.work / "models" / "qwen3vl"), images=size["images"])
    budgets: dict[str, int | None] = {"stock": None, "unset": 0}
    budgets |= {str(images * IMAGE_PATCHES): images * IMAGE_PATCHES for images in size["budgets"]}
    answers: dict[str, list[Any]] = {name: [] for name in budgets}
    calls: dict[str, int] = {}
    cpu: dict[str, list[float]] = {name: [] for name in budgets}

    def once(name: str) -> float:
        found = worker.ask("serve_all", requests=size["requests"], images=size["images"], budget=budgets[name])
        answers[name].append(found["tokens"])
        cpu[name].append(found["cpu_s"])
        calls[name] = found["encoder_calls"]
        return float(found["wall_s"])

    rounds(1, budgets, once)
    for seen in (*answers.values(), *cpu.values()):
        seen.clear()
    wall = rounds(size["rounds"], budgets, once)
    worker.close()
    rows = {
        name: {
            "budget": budget,
            "encoder_calls": calls[name],
            "requests_per_second": size["requests"] / statistics.median(wall[name]),
            "wall_ratio": paired_ratio(wall["stock"], wall[name]),
            "cpu_ratio": paired_ratio(cpu["stock"], cpu[name]),
        }
        for name, budget in budgets.items()
    }
    return {
        "vllm": worker.setup.vllm_version,
        "release": ready["release"],
        "requests": size["requests"],
        "images": size["images"],
        "patches_of_an_image": IMAGE_PATCHES,
        "rounds": size["rounds"],
        "tokens_equal": all(each == answers["stock"][0] for seen in answers.values() for each in seen),
        "rows": rows,
    }


# What follows runs in the worker.

ENGINE: dict[str, Any] = {}


def start(folder: str, images: int) -> dict[str, Any]:
    """Start the engine, and keep the code that the two functions have, stock and patched."""
    sys.path.insert(0, str(BENCH.parent / "tests" / "real"))
    import torch
    from engine_worker import DEFAULTS
    from scenarios import limits
    from tiny_models import make_model
    from vllm import LLM

    model = make_model("qwen3vl", Path(folder))
    llm = LLM(str(model), **{**DEFAULTS, **limits("qwen3vl", images), "enable_prefix_caching": False})
    torch.set_num_threads(1)
    import vllm_gaudi.models.utils as utils_module
    import vllm_gaudi.v1.worker.hpu_model_runner as runner_module

    from gaudi_shadow import status

    pairs = (
        (utils_module._merge_multimodal_embeddings, utils_module),
        (runner_module.HPUModelRunner._execute_mm_encoder, runner_module),
    )
    ENGINE.update(llm=llm, codes=[(function, codes_of(function, module)) for function, module in pairs])
    return {"release": status()["release"]}


def serve_all(requests: int, images: int, budget: int | None) -> dict[str, Any]:
    """Answer all requests at once; no budget means the stock functions, 0 the patched ones without one."""
    import os

    from asking import prompt_of
    from vllm import SamplingParams

    from gaudi_shadow import counters
    from gaudi_shadow.fixes import mm_encoder_budget

    for function, codes in ENGINE["codes"]:
        function.__code__ = codes["stock" if budget is None else "patched"]
    os.environ[mm_encoder_budget.VARIABLE] = str(budget or 0)
    mm_encoder_budget.configure(True)
    asked = [{"images": [[100 * n + i, 512, 512] for i in range(images)]} for n in range(requests)]
    prompts = [prompt_of("qwen3vl", each) for each in asked]
    llm = ENGINE["llm"]
    llm.llm_engine.reset_encoder_cache()
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    counters.counts["encoder_calls"] = 0
    wall, cpu = time.perf_counter(), time.process_time()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    return {"wall_s": wall, "cpu_s": cpu, "tokens": tokens, "encoder_calls": counters.counts["encoder_calls"]}


if __name__ == "__main__":
    if sys.argv[1:] != ["--worker"]:
        sys.exit(run("throughput", arguments(__doc__, real=True).parse_args(), measure))
    sys.exit(serve({"start": start, "serve_all": serve_all}, fork=False))
