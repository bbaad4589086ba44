"""A release tree that runs: a copy of vllm_gaudi, adapted where it must be, and the dist-info that a bare tree lacks.

vllm-gaudi's v0.30.0 tag may be out of reach; main of 2026-08-21 stands in for it. VLLM_030 says what changes so that it
imports and serves under vLLM 0.30.0, FLOAT32 what lets any release compute in float32, and each rule how often it must
match; one that does not is an error. The functions that the fixes replace keep their text, but for the one name.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from pathlib import Path

Rule = Callable[[str], str]
RUNNER = "vllm_gaudi/v1/worker/hpu_model_runner.py"
OLD_GROUPING, GROUPING = "group_mm_kwargs_by_modality", "group_and_batch_mm_kwargs"


class RuleMissed(Exception):
    """A rule did not match as often as it must: this is not the tree that it was written for."""


def _checked(count: int, wanted: int, what: str) -> None:
    if count != wanted:
        raise RuleMissed(f"{what}: {count} matches, {wanted} wanted")


def replace(pattern: str, new: str, times: int) -> Rule:
    """Replace a regular expression that matches exactly `times` times."""

    def rule(text: str) -> str:
        text, count = re.subn(pattern, new, text)
        _checked(count, times, pattern)
        return text

    return rule


def blank_statements(word: str, times: int) -> Rule:
    """Blank the import and expression statements that mention `word`; the other lines keep their numbers."""

    def rule(text: str) -> str:
        lines = text.split("\n")
        found = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
            and word in (ast.get_source_segment(text, node) or "")
        ]
        _checked(len(found), times, word)
        for node in found:
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1 : last] = [" " * node.col_offset + "pass"] + [""] * (last - node.lineno)
        return "\n".join(lines)

    return rule


# The platform turns float32 into bfloat16, in which another batch or chunk gives other tokens; and the runner names a
# float32 cache by a word that vLLM does not know.
FLOAT32: dict[str, list[Rule]] = {
    "vllm_gaudi/platform.py": [replace(r"\(torch\.float16, torch\.float32\)", "(torch.float16,)", 1)],
    RUNNER: [replace('torch.float32: "float32"', 'torch.float32: "auto"', 1)],
}
VLLM_030: dict[str, list[Rule]] = {
    RUNNER: [replace(rf"\b{OLD_GROUPING}\b", GROUPING, 4), replace(r"\.shared_by\b", ".layers", 15)],
    "vllm_gaudi/v1/kv_offload/worker/cpu_hpu.py": [replace(r"\.shared_by\b", ".layers", 1)],
    "vllm_gaudi/models/__init__.py": [blank_statements("hunyuan_v1", 4)],
    "setup.py": [replace(r"(?m)^.*hpu_tool_parsers.*\n", "", 1)],
}


def needs_rules(root: Path, vllm_version: str) -> bool:
    """Whether the tree's runner knows only the grouping function that this vLLM no longer has."""
    return vllm_version.startswith("0.30.") and OLD_GROUPING in (root / RUNNER).read_text("utf-8")


def _write_dist_info(tree: Path, version: str) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse((tree / "setup.py").read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    ]
    points = next(ast.literal_eval(keyword.value) for keyword in calls[0].keywords if keyword.arg == "entry_points")
    sections = [
        f"[{group}]\n" + "\n".join(lines) + "\n" for group, lines in points.items() if group.startswith("vllm.")
    ]
    info = tree / f"vllm_gaudi-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm_gaudi\nVersion: {version}\n", "utf-8")
    (info / "entry_points.txt").write_text("\n".join(sections), "utf-8")


def prepare(root: Path, vllm_version: str, folder: Path) -> Path:
    """Copy a source tree into `folder` (made anew), adapt it to this vLLM, and give it a dist-info.

    Raises:
        RuleMissed: the tree needs rules that do not fit it.
        OSError: it has no vllm_gaudi or no setup.py.
    """
    if folder.exists():
        shutil.rmtree(folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "vllm_gaudi", folder / "vllm_gaudi", ignore=ignored)
    shutil.copy(root / "setup.py", folder)
    for rules in [FLOAT32, *([VLLM_030] if needs_rules(root, vllm_version) else [])]:
        for name, changes in rules.items():
            text = (folder / name).read_text("utf-8")
            for change in changes:
                text = change(text)
            (folder / name).write_text(text, "utf-8")
    _write_dist_info(folder, vllm_version)
    return folder
