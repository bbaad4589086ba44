"""Measures vLLM's real vision towers on the CPU, fits `gaudi-shadow plan`'s estimate of memory, and checks it.

    python bench/fit_plan_memory.py [--small] [--results DIR]

In a Python that has vLLM and torch; docs/plan.md tells which were used. The coefficients are solved from towers that
were made for it; what they are checked on are other towers and calls, with the widths of published models. The
measurements are written as JSON, and tests/test_plan_memory.py holds the estimate against them.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Figures, arguments, run

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from plan_memory_cases import CHECK, FIT, QWEN2, QWEN3, Case  # noqa: E402

from gaudi_shadow.planning.memory import transient_bytes  # noqa: E402

WORKER = CHECKOUT / "bench" / "plan_tower.py"
# glibc hands freed memory back, so that the resident size follows what is alive.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"}
VLLM = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_PLUGINS": "", "VLLM_TARGET_DEVICE": "cpu", "VLLM_DIST_IDENT": "plan"}
SECONDS = 3600


def measure(cases: Sequence[Case], way: str) -> list[int]:
    """Bytes that each case took, by one way of measuring; all in the same processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    text = json.dumps([asdict(case) for case in cases])
    ranks = range(cases[0].tensor_parallel)
    first, *others = ([sys.executable, str(WORKER), text, str(rank), port, way] for rank in ranks)
    environment = {**os.environ, **ALLOCATOR, **VLLM}
    quiet = subprocess.DEVNULL
    helpers = [subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) for command in others]
    try:
        done = subprocess.run(first, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()
    found = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("TAKEN ")]
    if len(found) != len(cases):
        raise SystemExit(f"{cases[len(found)]} by {way}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return found


def measured(cases: Sequence[Case], *ways: str) -> list[dict[str, Any]]:
    """Each case with what it took and what `plan` estimates; one line printed for each."""
    rows: dict[Case, dict[str, Any]] = {}
    for split in sorted({case.tensor_parallel for case in cases}):
        alike = [case for case in cases if case.tensor_parallel == split]
        found = {way: measure(alike, way) for way in ways}
        for number, case in enumerate(alike):
            estimate = transient_bytes(case.tower, case.setting, case.patches, case.longest_sequence)
            taken = {way: found[way][number] for way in ways}
            rows[case] = {**asdict(case), "patches": case.patches, "estimate": estimate, **taken}
            print(_line(case, rows[case], ways), flush=True)
    return [rows[case] for case in cases]


def _line(case: Case, row: dict[str, Any], ways: Sequence[str]) -> str:
    shape = f"{case.formula} {case.hidden}/{case.intermediate}/{case.heads}/{case.output} x {case.depth}"
    run = f"{case.dtype} tp {case.tensor_parallel} {case.attention}, {case.patches} patches"
    off = ", ".join(f"{way} {row[way] >> 20} MiB, estimate {row['estimate'] / row[way] - 1:+.2%}" for way in ways)
    return f"{case.purpose}: {shape}, {run}: {off}"


# What each full moment is made of, in elements per patch; the coefficients are what is fitted.
TERMS: dict[tuple[str, str], Callable[[Case], dict[str, float]]] = {
    (QWEN3, "attention"): lambda case: {"hidden": case.hidden, "hidden / split": case.hidden / case.tensor_parallel},
    (QWEN3, "MLP"): lambda case: {
        "hidden": case.hidden,
        "intermediate / split": case.intermediate / case.tensor_parallel,
    },
    (QWEN3, "results"): lambda case: {"hidden": case.hidden, "results": (1 + len(case.deepstack)) * case.output / 4},
    (QWEN2, "MLP"): lambda case: {
        "hidden": case.hidden,
        "intermediate / split": case.intermediate / case.tensor_parallel,
    },
    (QWEN2, "results"): lambda case: {
        "hidden": case.hidden,
        "hidden / split": case.hidden / case.tensor_parallel,
        "output / merged": case.output / 4,
    },
    (QWEN2, "attention"): lambda case: {
        "hidden, alone": case.hidden * (case.tensor_parallel == 1),
        "hidden, 2 processes": case.hidden * (case.tensor_parallel == 2),
        "hidden, 4 processes": case.hidden * (case.tensor_parallel == 4),
    },
}


def fitted(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The coefficients that fit the measurements best, by formula and moment."""
    found = {}
    for (formula, moment), terms in TERMS.items():
        cases = [
            (case, row)
            for case, row in zip(FIT, rows, strict=True)
            if (case.formula, case.purpose) == (formula, f"fit:{moment}")
        ]
        wanted = [_alive(case, row["allocator"], held=moment != "results") for case, row in cases]
        matrix = np.array([list(terms(case).values()) for case, _ in cases])
        solved = np.linalg.lstsq(matrix, np.array(wanted), rcond=None)[0]
        found[f"{formula} {moment}"] = dict(zip(terms(cases[0][0]), map(float, solved), strict=True))
    return found


def _alive(case: Case, taken: int, *, held: bool) -> float:
    tower = case.tower
    known = tower.pixels + tower.hidden / tower.heads + held * tower.deepstack_held * tower.output / tower.merged
    return taken / case.patches / case.setting.element_bytes - known


def figures(options: argparse.Namespace) -> Figures:
    """Measure all, fit, check. Small: one case of each kind, and no fit."""
    fit, check = (FIT[:1], CHECK[:0]) if options.small else (FIT, CHECK)
    fit_rows, check_rows = measured(fit, "allocator"), measured(check, "allocator", "rss")
    coefficients = {} if options.small else fitted(fit_rows)
    for name, solved in coefficients.items():
        print(name, {term: round(value, 3) for term, value in solved.items()})
    versions = {name: metadata.version(name) for name in ("vllm", "torch", "transformers")}
    return {"versions": versions, "coefficients": coefficients, "fit": fit_rows, "check": check_rows}


if __name__ == "__main__":
    sys.exit(run("fit_plan_memory", arguments(__doc__).parse_args(), figures))
