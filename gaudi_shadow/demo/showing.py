"""Run the scenario stock and patched, each in an interpreter of its own, and set what they found side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaudi_shadow.catalog import PACKAGE
from gaudi_shadow.demo.scenario import PATCHES_PER_IMAGE
from gaudi_shadow.demo.standin import write_release
from gaudi_shadow.demo.workshop import adopt, copy_package
from gaudi_shadow.fixes.mm_encoder_budget import VARIABLE

STANDIN = "v0.30.0"
BUDGET = 2 * PATCHES_PER_IMAGE
SCENARIO = Path(__file__).with_name("scenario.py")


class DemoFailed(RuntimeError):
    """An interpreter of the demo gave no findings; the message says why in one line."""


@dataclass(frozen=True)
class Stage:
    """Where the demo runs.

    Attributes:
        name: which release it is, for the reader.
        entries: PYTHONPATH entries that hold the release; empty when Python finds it by itself.
        hook: the PYTHONPATH entry that activates us.
    """

    name: str
    entries: tuple[Path, ...]
    hook: Path


def standin_stage(folder: Path) -> Stage:
    """A stand-in release in `folder`, and a copy of this package that knows it."""
    tree = write_release(folder / "release", STANDIN)
    hook = copy_package(folder / "hook")
    adopt(hook / "gaudi_shadow" / "overlays", STANDIN, tree)
    return Stage(f"a stand-in for {STANDIN}, written by gaudi-shadow", (tree,), hook)


def real_stage(root: Path | None) -> Stage:
    """The release in `root`, or the installed one."""
    package = Path(PACKAGE)
    inject = package / "inject"
    hook = inject if (inject / "sitecustomize.py").exists() else package.parent
    if root is None:
        return Stage("the installed vllm-gaudi", (), hook)
    return Stage(f"the vllm-gaudi in {root}", (root,), hook)


def run_scenario(stage: Stage, folder: Path, *, patched: bool) -> dict[str, Any]:
    """What the scenario finds in one interpreter.

    Raises:
        DemoFailed: the release cannot be imported there, or something is missing.
    """
    output = folder / f"{'patched' if patched else 'stock'}.json"
    entries = [*([stage.hook] if patched else []), *stage.entries]
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*map(str, entries), *([before] if before else [])])
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop(VARIABLE, None)
    for name in [name for name in environment if name.startswith("VLLM_GAUDI_SHADOW")]:
        del environment[name]
    environment["VLLM_GAUDI_SHADOW"] = "1" if patched else "0"
    if path:
        environment["PYTHONPATH"] = path
    if patched:
        environment[VARIABLE] = str(BUDGET)
    command = [sys.executable, str(SCENARIO), str(output)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode or not output.exists():
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise DemoFailed(last)
    findings: dict[str, Any] = json.loads(output.read_text("utf-8"))
    return findings


def _encoder_cell(encoder: dict[str, Any]) -> list[str]:
    return [f"{len(encoder['calls'])} call(s): {encoder['calls']}", encoder["error"] or "all images encoded"]


def _merge_cell(found: dict[str, Any], expected: str) -> list[str]:
    if found["error"]:
        return [found["error"]]
    same = "equal bit for bit to masked_scatter_" if found["digest"] == expected else "DIFFERENT from masked_scatter_"
    return [f"{found['rows']} rows merged", same]


def _covered_cell(found: dict[str, Any]) -> list[str]:
    return [found["error"] or f"left out; encoded {', '.join(found['cached'])}"]


def table(
    stock: dict[str, Any], patched: dict[str, Any], has_covered_fault: bool
) -> list[tuple[str, list[str], list[str]]]:
    """Rows of (what, stock's lines, the patched lines)."""
    reference = stock["merge_without_limit"]["digest"]
    same = stock["encoder_on_a_large_card"]["digest"] == patched["encoder"]["digest"]
    outputs = "equal bit for bit to stock's on a card that is large enough" if same else "DIFFERENT from stock's"
    rows = [
        ("encoder calls, in patches", _encoder_cell(stock["encoder"]), [*_encoder_cell(patched["encoder"]), outputs]),
        ("merge of 8 images", _merge_cell(stock["merge"], reference), _merge_cell(patched["merge"], reference)),
    ]
    if has_covered_fault:
        rows.append(("an image without data", _covered_cell(stock["covered"]), _covered_cell(patched["covered"])))
    return rows


def faults_are_gone(stock: dict[str, Any], patched: dict[str, Any], has_covered_fault: bool) -> bool:
    """Whether stock showed each fault, and the patched interpreter none, with the same results."""
    names = ["encoder", "merge", *(["covered"] if has_covered_fault else [])]
    return (
        all(stock[name]["error"] for name in names)
        and not any(patched[name]["error"] for name in names)
        and patched["encoder"]["digest"] == stock["encoder_on_a_large_card"]["digest"]
        and patched["merge"]["digest"] == stock["merge_without_limit"]["digest"]
    )
