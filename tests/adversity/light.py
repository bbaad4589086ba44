"""Stand-in releases that import in milliseconds, for tests that start hundreds of interpreters, and ways to ask one."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from conftest import CHECKOUT, RUNNER, UTILS, Workshop, make_workshop, run_python

if str(CHECKOUT / "bench") not in sys.path:
    sys.path.insert(0, str(CHECKOUT / "bench"))

from drift_target import Target

RELEASE = "v0.30.0"
TARGETS = (UTILS, RUNNER)
FUNCTIONS = {UTILS: "_merge_multimodal_embeddings", RUNNER: "HPUModelRunner._execute_mm_encoder"}

ASK = f"""
import contextlib, importlib, json, sys

def file_of(module, qualname):
    found = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    code = getattr(found, "__code__", None)
    return code and code.co_filename

said = {{}}
for module in {TARGETS!r}:
    try:
        importlib.import_module(module)
        said[module] = "imported"
    except Exception as error:
        said[module] = type(error).__name__ + ": " + str(error)
status = None
if "gaudi_shadow.finder" in sys.modules:
    with contextlib.suppress(Exception):  # of a damaged package
        status = sys.modules["gaudi_shadow"].status()
answer = {{"imports": said, "files": {{m: file_of(m, q) for m, q in {FUNCTIONS!r}.items()}}, "status": status}}
print(json.dumps(answer))
"""


THEN_STRICT = f"""
import os
os.environ["VLLM_GAUDI_SHADOW_STRICT"] = "1"
strict = {{}}
for module in {TARGETS!r}:
    sys.modules.pop(module, None)
    try:
        importlib.import_module(module)
        strict[module] = "imported"
    except Exception as error:
        strict[module] = type(error).__name__ + ": " + str(error)
print(json.dumps(strict))
sys.exit(7)
"""


def make_light(folder: Path) -> Workshop:
    """A workshop whose trees bring a `torch` that is nothing but a name."""
    workshop = make_workshop(folder)
    for tree in workshop.trees.values():
        (tree / "torch.py").write_text("class Tensor:\n    pass\n", "utf-8")
    return workshop


def target_file(workshop: Workshop, module: str, release: str = RELEASE) -> Path:
    """A target's file in a workshop's tree."""
    return workshop.trees[release].joinpath(*module.split(".")).with_suffix(".py")


def change(path: Path, old: str, new: str) -> None:
    """Replace a text that must be there exactly once."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{path} holds {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new), "utf-8")


def edit_inside(path: Path, module: str, edit: Callable[[str], str]) -> None:
    """Edit the last line of a target function's last simple statement."""
    target = Target.read(module, path.read_text("utf-8"))
    simple = [node for node in target.statements() if isinstance(node, ast.Assign | ast.Expr | ast.Return)]
    edit_line(path, max(node.end_lineno or 0 for node in simple), edit)


def edit_outside(path: Path, module: str, edit: Callable[[str], str]) -> None:
    """Edit the module's docstring's last line."""
    edit_line(path, ast.parse(path.read_bytes()).body[0].end_lineno or 0, edit)


def edit_line(path: Path, number: int, edit: Callable[[str], str]) -> None:
    """Edit one line, counted from 1."""
    lines = path.read_text("utf-8").split("\n")
    assert edit(lines[number - 1]) != lines[number - 1]
    lines[number - 1] = edit(lines[number - 1])
    path.write_text("\n".join(lines), "utf-8")


class Answer:
    """What an interpreter that imported both targets said.

    Attributes:
        done: the finished process.
        imports: module -> "imported", or what its import raised.
        files: module -> the file that its target function's code names.
        status: what `gaudi_shadow.status()` gave, or None where the hook was not there.
        strict: as imports, for a second import under VLLM_GAUDI_SHADOW_STRICT; empty where that was not asked for.
    """

    def __init__(self, done: subprocess.CompletedProcess[str], exit_code: int = 0) -> None:
        assert done.returncode == exit_code, done.stderr
        self.done = done
        printed = [json.loads(line) for line in done.stdout.splitlines()]
        self.imports, self.files, self.status = (printed[0][part] for part in ("imports", "files", "status"))
        self.strict: dict[str, str] = printed[1] if len(printed) > 1 else {}

    @property
    def lines(self) -> list[str]:
        """What it wrote to stderr."""
        return self.done.stderr.splitlines()

    def is_patched(self, module: str) -> bool:
        """Whether the function is an overlay's and `status` says so; it is an error if the two disagree."""
        ours = "/overlays/" in (self.files[module] or "")
        says = self.status is not None and self.status["modules"][module]["state"] == "patched"
        assert ours == says, f"{module}: the code is of {self.files[module]}, status says {self.status}"
        return ours

    def reasons(self, module: str) -> str:
        """Why the fixes of a module are not applied, joined."""
        return " | ".join(fix["reason"] for fix in self.status["modules"][module]["fixes"].values())


def ask(env: Mapping[str, str], *flags: str, python: str | Path | None = None, cwd: Path | None = None) -> Answer:
    """Import both targets in a new interpreter."""
    return Answer(run_python(*flags, "-c", ASK, env=env, python=python, cwd=cwd))


def ask_strict_too(env: Mapping[str, str]) -> Answer:
    """The same, then again under VLLM_GAUDI_SHADOW_STRICT, in a program that exits with 7."""
    return Answer(run_python("-c", ASK + THEN_STRICT, env=env), exit_code=7)
