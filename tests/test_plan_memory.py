"""The estimate of memory against what vLLM's real towers took on a CPU: the results of bench/fit_plan_memory.py.

Also the page: it shows these figures, and a picture that the command draws.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import gaudi_shadow
from conftest import CHECKOUT, Workshop, clean_environment
from plan_folders import FOLDERS, write_folder

sys.path.insert(0, str(CHECKOUT / "bench"))

from plan_memory_cases import CHECK, FIT, Case

from gaudi_shadow.planning.memory import transient_bytes

RESULTS: dict[str, Any] = json.loads((CHECKOUT / "bench/results/fit_plan_memory.json").read_text("utf-8"))
PAGE = (CHECKOUT / "docs/plan.md").read_text("utf-8")
PICTURE = CHECKOUT / "docs/pictures/plan_peak.svg"

# What memory.py counts, as the fit names it.
COUNTED = {
    "qwen3_vl attention": {"hidden": 4, "hidden / split": 8},
    "qwen3_vl MLP": {"hidden": 4, "intermediate / split": 2},
    "qwen3_vl results": {"hidden": 1, "results": 2},
    "qwen2_vl attention": {"hidden, alone": 11, "hidden, 2 processes": 10, "hidden, 4 processes": 8.75},
    "qwen2_vl MLP": {"hidden": 3, "intermediate / split": 3},
    "qwen2_vl results": {"hidden": 2, "hidden / split": 1, "output / merged": 1},
}


def rows(purpose: str) -> list[tuple[Case, dict[str, Any]]]:
    fields = Case.__dataclass_fields__
    return [(Case.from_json({name: row[name] for name in fields}), row) for row in RESULTS[purpose]]


def off(purpose: str, way: str, attention: str = "fused") -> Iterator[float]:
    """How far the estimate is from each measurement, as a part of it."""
    for case, row in rows(purpose):
        if case.attention == attention:
            yield transient_bytes(case.tower, case.setting, case.patches, case.longest_sequence) / row[way] - 1


def test_every_case_was_measured() -> None:
    assert [case for case, _ in rows("fit")] == list(FIT)
    assert [case for case, _ in rows("check")] == list(CHECK)


def test_the_fit_gives_what_the_formula_counts() -> None:
    assert RESULTS["coefficients"].keys() == COUNTED.keys()
    for name, counted in COUNTED.items():
        assert RESULTS["coefficients"][name] == pytest.approx(counted, abs=0.02), name


@pytest.mark.parametrize(
    ("purpose", "way", "attention", "least", "most"),
    [
        ("fit", "allocator", "fused", -0.002, 0.002),
        ("check", "allocator", "fused", -0.002, 0.002),
        ("check", "allocator", "math", -0.02, 0.01),
        ("check", "rss", "fused", -0.05, 0.01),
        ("check", "rss", "math", -0.03, 0.01),
    ],
)
def test_the_estimate_is_close(purpose: str, way: str, attention: str, least: float, most: float) -> None:
    found = list(off(purpose, way, attention))
    assert len(found) >= 2
    assert least <= min(found) and max(found) <= most, found


def test_layers_do_not_add_to_the_peak() -> None:
    alike = [(case, row) for case, row in rows("check") if (case.output, case.patches) == (4096, 4096)]
    taken = {case.depth: row["allocator"] for case, row in alike if case.attention == "fused"}
    assert set(taken) == {4, 8}
    assert taken[4] == taken[8]


@pytest.mark.parametrize(
    ("label", "way", "attention"),
    [
        ("allocator, fused attention", "allocator", "fused"),
        ("resident memory, fused attention", "rss", "fused"),
        ("allocator, `--attention math`", "allocator", "math"),
        ("resident memory, `--attention math`", "rss", "math"),
    ],
)
def test_the_page_tells_how_far_off_it_is(label: str, way: str, attention: str) -> None:
    found = list(off("check", way, attention))
    assert f"| {label} | {len(found)} | {min(found):+.2%} to {max(found):+.2%} |" in PAGE


def test_the_page_names_the_versions() -> None:
    for name, version in RESULTS["versions"].items():
        assert re.search(rf"{name}\W+{re.escape(version.partition('+')[0])}", PAGE, re.IGNORECASE), name


def test_the_picture_on_the_page_is_the_commands(workshop: Workshop, tmp_path: Path) -> None:
    model = write_folder(tmp_path / "model", FOLDERS["Qwen3-VL as published"])
    drawn = tmp_path / "peak.svg"
    arguments = ("--model", model, "--image", "4096x4096x7", "--tensor-parallel", "2", "--plot", drawn)
    assert gaudi_shadow(workshop.hook, "plan", *arguments, env=clean_environment()).returncode == 0
    assert drawn.read_text("utf-8") == PICTURE.read_text("utf-8")
    assert f"]({PICTURE.relative_to(CHECKOUT / 'docs')})" in PAGE
