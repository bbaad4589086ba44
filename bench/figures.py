"""The pictures of docs/benchmarks.md, drawn from the benches' JSON results.

python bench/figures.py
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import RESULTS
from svg import Axis, Bar, Line, bars, lines

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
# Start over a bare start, as measured by us earlier and on another occasion: CPython 3.12, one core, 25 paired runs.
PEERS = {
    "ddtrace": 32.6,
    "OpenTelemetry distro": 15.1,
    "newrelic": 14.1,
    "elastic-apm": 12.8,
    "coverage .pth, dormant": 1.02,
    "setuptools' own .pth": 1.05,
}
ROUTES = {
    "control": ".pth with `import os`",
    "pip": "pip (.pth)",
    "checkout": "checkout on PYTHONPATH",
    "inject": "inject folder on PYTHONPATH",
    "run": "pip and `gaudi-shadow run`",
}


def _note(result: dict[str, Any]) -> str:
    machine, load = result["machine"], result["load"]
    where = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}"
    return f"Measured {result['date']} on a CPU ({where}; load {load['before']} to {load['after']})."


def _round_ticks(most: float) -> list[tuple[float, str]]:
    step = next(each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if most / each <= 7)
    return [(step * n, f"{step * n:,}") for n in range(int(most / step) + 2)]


def encoder_memory(result: dict[str, Any]) -> str:
    """Peak over budget, with the floor."""
    rows, patches = result["rows"], result["patches"]
    parts = sorted((int(name[2:]) for name in rows if name.startswith("1/")), reverse=True)
    ends = (parts[0], 1)
    drawn = [
        Line("stock", [(1 / part, rows["stock"]["peak_mib"]) for part in ends]),
        Line("patched", [(1 / p, rows[f"1/{p}"]["peak_mib"]) for p in parts] + [(1.0, rows["unset"]["peak_mib"])]),
        Line(
            "one such call alone",
            [(1 / p, rows[f"floor 1/{p}"]["peak_mib"]) for p in parts] + [(1.0, rows["stock"]["peak_mib"])],
            dashed=True,
        ),
    ]
    ticks = [(1 / part, f"{patches // part:,}") for part in parts] + [(1.0, f"unset ({patches:,})")]
    across = Axis("VLLM_HPU_MM_ENCODER_MAX_PATCHES, in patches", ticks, log=True)
    up = Axis("peak over the start, MiB", _round_ticks(rows["stock"]["peak_mib"]))
    return lines("Peak memory of the encoder step over its budget", _note(result), across, up, drawn)


def merge_time(result: dict[str, Any]) -> str:
    """Ratio over tokens, one line a fill rate, at the middle hidden size."""
    hidden = sorted({row["hidden"] for row in result["rows"]})
    middle = hidden[len(hidden) // 2]
    rows = [row for row in result["rows"] if row["hidden"] == middle]
    drawn = [
        Line(f"fill {fill}", [(row["tokens"], row["ratio"]) for row in rows if row["fill"] == fill])
        for fill in sorted({row["fill"] for row in rows})
    ]
    tokens = sorted({row["tokens"] for row in rows})
    across = Axis(f"tokens of a step (hidden size {middle:,}, bfloat16)", [(n, f"{n:,}") for n in tokens], log=True)
    most = max(row["ratio"] for row in rows)
    step = next(each for each in (0.05, 0.1, 0.5) if most / each <= 7 or each == 0.5)
    up = Axis("time over stock's", [(step * n, f"{step * n:.2f}") for n in range(int(most / step) + 2)])
    if len(tokens) == 1:
        return bars("Time of the merge", _note(result), up, [Bar(each.name, each.points[0][1], "") for each in drawn])
    return lines("Time of the merge against the broadcast masked_scatter_", _note(result), across, up, drawn)


def startup_time(result: dict[str, Any]) -> str:
    """Our routes beside what peers took."""
    ratios = {words: result["rows"][name]["cpu_ratio"] for name, words in ROUTES.items()}
    rows = [Bar(words, ratio, "", 5 if words == ROUTES["control"] else 0) for words, ratio in ratios.items()]
    rows += [Bar(f"{name} *", ratio, "", 1) for name, ratio in PEERS.items()]
    rows = [row._replace(value=max(row.value, 1.0), words=f"{row.value:.2f}") for row in rows]
    axis = Axis("start of an interpreter over a bare one (log)", [(n, str(n)) for n in (1, 2, 5, 10, 20, 40)], log=True)
    note = _note(result) + "\n* measured by us earlier, on another occasion (CPython 3.12, one core, 25 paired runs)."
    return bars("Interpreter start, over a bare start", note, axis, rows)


def import_time(result: dict[str, Any]) -> str:
    """Stock and patched in each case."""
    words = {"warm": "all .pyc warm", "cold": "runner compiled", "all cold": "ours compiled too"}
    rows = []
    for case, row in result["rows"].items():
        rows.append(Bar(f"{words[case]}: stock", row["stock_ms"], f"{row['stock_ms']:.1f} ms", 5))
        rows.append(Bar("patched", row["patched_ms"], f"{row['patched_ms']:.1f} ms", 0))
    axis = Axis("CPU time of the import, ms", _round_ticks(max(row.value for row in rows)))
    title = f"Import of the {result['lines']:,}-line runner"
    return bars(title, _note(result), axis, rows)


def scale(result: dict[str, Any]) -> str:
    """Every step over the length of the module."""
    rows = result["rows"]
    drawn = [Line(name, [(row["lines"], row["ms"][name]) for row in rows]) for name in rows[0]["ms"]]
    across = Axis("lines of the module (log)", [(row["lines"], f"{row['lines']:,}") for row in rows], log=True)
    up = Axis("CPU time, ms (log)", [(10.0**n, f"{10.0**n:g}") for n in range(-2, 5)], log=True)
    return lines("One function grafted, against reading and compiling the module", _note(result), across, up, drawn)


def throughput(result: dict[str, Any]) -> str:
    """Requests per second over stock's."""
    names = {name: name if name in ("stock", "unset") else f"budget {int(name):,}" for name in result["rows"]}
    ratios = {name: row["cpu_ratio"] for name, row in result["rows"].items()}
    rows = [Bar(names[name], ratio, f"{ratio:.3f}", 5 if name == "stock" else 0) for name, ratio in ratios.items()]
    axis = Axis("requests per second of CPU, over stock's", [(n / 5, f"{n / 5:.1f}") for n in range(7)])
    return bars("Throughput of the real engine on a CPU", _note(result), axis, rows)


DRAWN: dict[str, Callable[[dict[str, Any]], str]] = {
    each.__name__: each for each in (encoder_memory, merge_time, startup_time, import_time, scale, throughput)
}


def main() -> int:
    """Draw what there are results for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with the JSON")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder for the SVG")
    options = parser.parse_args()
    options.pictures.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        path = options.results / f"{name}.json"
        if path.exists():
            picture = options.pictures / f"{name.replace('_', '-')}.svg"
            picture.write_text(draw(json.loads(path.read_text("utf-8"))), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
