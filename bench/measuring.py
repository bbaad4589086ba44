"""What all measurements share: interleaved rounds, medians of paired ratios, the machine, and the JSON results.

The machine may be busy: every ratio is of two values that were measured in the same round, and of those ratios the
median counts. Where one thread does the work, CPU time is measured, which busy neighbours change less than wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
Figures = dict[str, Any]


def arguments(purpose: str | None, *, real: bool = False) -> argparse.ArgumentParser:
    """The options of every bench; with `real` also those that name a release and a Python with vLLM."""
    parser = argparse.ArgumentParser(description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes and few rounds: does it run at all?")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON (default: bench/results)")
    if real:
        parser.add_argument("--root", default=os.environ.get("GAUDI_FIXES_ROOT"), help="or GAUDI_FIXES_ROOT")
        parser.add_argument("--python", default=os.environ.get("GAUDI_REAL_PYTHON"), help="or GAUDI_REAL_PYTHON")
        parser.add_argument("--work", type=Path, help="keeps tree, models and logs; else a temporary folder")
    return parser


def rounds(count: int, kinds: Iterable[str], measure: Callable[[str], float]) -> dict[str, list[float]]:
    """Measure each kind once a round, in an order that changes from round to round and is the same in each run."""
    names = list(kinds)
    dice = random.Random(0)
    values: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(count):
        dice.shuffle(names)
        for name in names:
            values[name].append(measure(name))
    return values


def paired_ratio(values: Iterable[float], base: Iterable[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(value / reference for value, reference in zip(values, base, strict=True))


def paired_difference(values: Iterable[float], base: Iterable[float]) -> float:
    """The median of the rounds' differences."""
    return statistics.median(value - reference for value, reference in zip(values, base, strict=True))


def machine() -> Mapping[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": _from_proc("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(int((_from_proc("/proc/meminfo", "MemTotal") or "0").split()[0]) / 2**20, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _from_proc(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def run(name: str, options: argparse.Namespace, measure: Callable[[argparse.Namespace], Figures]) -> int:
    """Measure, and write `<name>.json` with the machine, the load and the time it took beside the figures."""
    start, load = time.monotonic(), os.getloadavg()[0]
    figures = measure(options)
    result = {
        "bench": name,
        "command": " ".join(["python", f"bench/{Path(sys.argv[0]).name}", *(["--small"] if options.small else [])]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": {"before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
        "seconds": round(time.monotonic() - start),
        **figures,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"{name}.json"
    path.write_text(json.dumps(rounded(result), indent=1) + "\n", "utf-8")
    print(
        f"{path}: {result['seconds']} s, load {result['load']['before']} to {result['load']['after']}", file=sys.stderr
    )
    return 0


def rounded(value: Any) -> Any:
    """The same with floats cut to five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value
