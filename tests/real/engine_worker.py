"""Runs in the Python that has vLLM: starts engines one after the other, asks them, and prints all answers as JSON.

usage: engine_worker.py PLAN      PLAN is a JSON file: {"models": folder, "own_process": bool, "engines": [engine, ...]}
engine: {"name", "family", "environ": {...}, "options": {for LLM}, "steps": [{"name", "how", "requests": [...]}, ...]}
how: "together" (one call with all), "alone" (one by one), "chat" (alone, as chat messages), "abort" (all are begun,
every other one is aborted after three steps of the engine).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from asking import CHAT_TEMPLATE, ENGINE_MARK, TOKENS, Request, messages_of, prompt_of
from tiny_models import make_model

DEFAULTS: dict[str, Any] = {
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 4096,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 2048,
    "num_gpu_blocks_override": 256,
    "seed": 0,
}


def sampling(request: Request) -> Any:
    """Greedy, with the log-probability of each token."""
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=request.get("tokens", TOKENS), ignore_eos=True, logprobs=0)


def answer_of(output: Any) -> dict[str, Any]:
    """Tokens, their log-probabilities, and how many tokens of the prompt came from the prefix cache."""
    (best,) = output.outputs
    return {
        "tokens": list(best.token_ids),
        "logprobs": [next(iter(each.values())).logprob for each in best.logprobs],
        "prompt_tokens": len(output.prompt_token_ids),
        "cached": output.num_cached_tokens,
    }


def ask_and_abort(llm: Any, family: str, requests: list[Request]) -> list[Any]:
    """The finished outputs in order; None for the aborted ones, which are every other one, from the first on."""
    engine = llm.llm_engine
    names = [f"abort-{time.monotonic_ns()}-{number}" for number, _ in enumerate(requests)]
    for name, request in zip(names, requests, strict=True):
        engine.add_request(name, prompt_of(family, request), sampling(request))
    finished = {}

    def step() -> None:
        for output in engine.step():
            if output.finished:
                finished[output.request_id] = output

    for _ in range(3):
        step()
    engine.abort_request(names[::2])
    finished.clear()
    while engine.has_unfinished_requests():
        step()
    outputs = {name: output for given, output in finished.items() for name in names if given.startswith(name)}
    return [None if number % 2 == 0 else outputs[name] for number, name in enumerate(names)]


def ask(llm: Any, family: str, how: str, requests: list[Request]) -> list[Any]:
    """The answers to the requests, in order."""
    if how == "chat":
        options = {"use_tqdm": False, "chat_template": CHAT_TEMPLATE}
        outputs = [llm.chat(messages_of(each), sampling(each), **options)[0] for each in requests]
    elif how == "alone":
        outputs = [llm.generate(prompt_of(family, each), sampling(each), use_tqdm=False)[0] for each in requests]
    elif how == "together":
        prompts = [prompt_of(family, each) for each in requests]
        outputs = llm.generate(prompts, [sampling(each) for each in requests], use_tqdm=False)
    else:
        assert how == "abort", how
        outputs = ask_and_abort(llm, family, requests)
    return [output and answer_of(output) for output in outputs]


def chain_of(error: BaseException | None) -> list[str]:
    """An error and its causes, one line each."""
    lines = []
    while error is not None:
        lines.append(f"{type(error).__name__}: {error}".partition("\n")[0])
        error = error.__cause__ or error.__context__
    return lines


def frames_of(error: BaseException) -> list[str]:
    """Where an error came from, innermost last, as module path and function."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno} {frame.name}" for frame in frames]


def card_peak(reset: bool = False) -> int | None:
    """The most bytes on the stand-in's card since the last reset; None without a meter (or in another process)."""
    from habana_frameworks import card

    if card.meter is None:
        return None
    if reset:
        card.meter.peak = card.meter.live
    peak: int = card.meter.peak
    return peak


def run_step(llm: Any, family: str, step: dict[str, Any]) -> dict[str, Any]:
    """One step's answers, or its error; with the time it took in seconds and the card's peak in bytes."""
    card_peak(reset=True)
    start = time.perf_counter()
    found: dict[str, Any] = {"name": step["name"]}
    try:
        found["answers"] = ask(llm, family, step["how"], step["requests"])
    except Exception as error:
        traceback.print_exc()
        found["error"], found["frames"] = chain_of(error), frames_of(error)
    return {**found, "seconds": round(time.perf_counter() - start, 2), "card_peak": card_peak()}


def run_engine(models: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """Start one engine and take its steps until one fails."""
    from vllm import LLM
    from vllm_gaudi.extension.runtime import clear_config

    print(ENGINE_MARK + plan["name"], file=sys.stderr, flush=True)
    os.environ.update(plan["environ"])
    folder = make_model(plan["family"], models / plan["family"])
    start = time.perf_counter()
    llm = LLM(str(folder), **{**DEFAULTS, **plan["options"]})
    found: dict[str, Any] = {"name": plan["name"], "start_seconds": round(time.perf_counter() - start, 1), "steps": []}
    for step in plan["steps"]:
        found["steps"].append(run_step(llm, plan["family"], step))
        if "error" in found["steps"][-1]:
            break
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    for name in plan["environ"]:
        del os.environ[name]
    # vllm-gaudi keeps the first model's configuration for the life of a process.
    clear_config()
    return found


def hook_status() -> Any:
    """What gaudi-shadow says of this process, or None where it is not loaded."""
    hook = sys.modules.get("gaudi_shadow")
    return hook.status() if hook is not None else None


def main(plan_file: str) -> None:
    """Run a plan; JSON goes to the stdout we were given, all that vLLM prints to stderr."""
    plan = json.loads(Path(plan_file).read_text("utf-8"))
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if plan["own_process"] else "0"
    own_stdout = os.dup(1)
    os.dup2(2, 1)
    start = time.perf_counter()
    engines = [run_engine(Path(plan["models"]), engine) for engine in plan["engines"]]
    report = {"engines": engines, "status": hook_status(), "seconds": round(time.perf_counter() - start, 1)}
    with os.fdopen(own_stdout, "w") as stdout:
        stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
