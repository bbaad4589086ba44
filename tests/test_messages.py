"""Each refusal in one line: which fix, which module, which file, what was found and expected, what to do; said once."""

from __future__ import annotations

import json
import py_compile
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adversity.light import FUNCTIONS, RELEASE, TARGETS, edit_inside, make_light, target_file
from conftest import RUNNER, UTILS, Workshop, run_python

from gaudi_shadow.cli import COMMANDS
from gaudi_shadow.fingerprint import fingerprint, function_block, plain_lines
from gaudi_shadow.messages import one_line, printable

BOTH = ("mm-encoder-budget", "mm-encoder-covered")
# Three imports of both targets in one process, and a reload.
THRICE = f"""
import importlib, sys
for _ in range(3):
    for module in {TARGETS!r}:
        sys.modules.pop(module, None)
        importlib.reload(importlib.import_module(module))
"""


def overlay(light: Workshop) -> Path:
    return (light.hook / "gaudi_shadow/overlays" / RELEASE).joinpath(*RUNNER.split(".")).with_suffix(".py")


def edit_manifest(light: Workshop, change: Callable[[dict[str, Any]], Any]) -> None:
    path = light.hook / "gaudi_shadow/overlays" / RELEASE / "manifest.json"
    document = json.loads(path.read_text("utf-8"))
    change(document["fixes"])
    path.write_text(json.dumps(document), "utf-8")


def drift(light: Workshop) -> None:
    edit_inside(target_file(light, RUNNER), RUNNER, lambda line: line + ";")


def second_definition(light: Workshop) -> None:
    path = target_file(light, RUNNER)
    path.write_text(path.read_text("utf-8") + "\n\nclass HPUModelRunner:\n    pass\n", "utf-8")


def no_such_method(light: Workshop) -> None:
    path = target_file(light, RUNNER)
    path.write_text(path.read_text("utf-8").replace("_execute_mm_encoder", "_run_mm_encoder"), "utf-8")


def rebound(light: Workshop) -> None:
    path = target_file(light, RUNNER)
    path.write_text(path.read_text("utf-8") + f"\n{FUNCTIONS[RUNNER]} = len\n", "utf-8")


def stale_bytecode(light: Workshop) -> None:
    path = target_file(light, RUNNER)
    original = path.read_bytes()
    edit_inside(path, RUNNER, lambda line: line + "; mutant = 1")
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_bytes(original)


def no_source(light: Workshop) -> None:
    path = target_file(light, RUNNER)
    py_compile.compile(str(path), cfile=str(path) + "c")
    path.unlink()


def held_back(light: Workshop) -> None:
    edit_manifest(light, lambda fixes: fixes["mm-encoder-covered"].update(fingerprints=["sha256:" + "0" * 64]))


REFUSALS: dict[str, tuple[Callable[[Workshop], Any], list[str]]] = {
    "drift": (drift, ["has changed", "found sha256:", "known sha256:", "gaudi-shadow check", "gaudi-shadow report"]),
    "a second definition": (second_definition, ["the module defines 2 HPUModelRunner", "gaudi-shadow check"]),
    "no such method": (
        no_such_method,
        ["the module defines no HPUModelRunner._execute_mm_encoder", "gaudi-shadow check"],
    ),
    "rebound": (
        rebound,
        ["put something else in the place of HPUModelRunner._execute_mm_encoder", "gaudi-shadow check"],
    ),
    "stale bytecode": (stale_bytecode, ["bytecode does not match source", "remove the stale .pyc files"]),
    "no source": (no_source, ["no source to compare", "install it from source"]),
    "held back": (
        held_back,
        ["held back with mm-encoder-covered", "patched whole or not at all", "known sha256:000000000000"],
    ),
    "no overlay": (lambda light: overlay(light).write_text(""), [f"overlays/{RELEASE}/", "reinstall gaudi-shadow"]),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_all_that_is_needed_once(light: Workshop, name: str) -> None:
    damage, words = REFUSALS[name]
    damage(light)
    done = run_python("-c", THRICE, env=light.environment(RELEASE))
    assert done.returncode == 0 and done.stdout == ""
    [line] = done.stderr.splitlines()
    file = str(target_file(light, RUNNER)) + ("c" if name == "no source" else "")
    for word in ("gaudi-shadow: ", *BOTH, RUNNER, file, "stays stock", *words):
        assert word in line
    for command in re.findall(r"'gaudi-shadow (\w+)", line):
        assert command in COMMANDS
    script = f"import {RUNNER}"
    strict = run_python("-c", script, env=light.environment(RELEASE, VLLM_GAUDI_SHADOW_STRICT="1"))
    assert strict.returncode == 1
    assert strict.stderr.splitlines()[-1] == (
        "ImportError: gaudi-shadow: VLLM_GAUDI_SHADOW_STRICT is set, and " + line.removeprefix("gaudi-shadow: ")
    )


def test_the_fingerprints_in_the_line_are_the_functions(light: Workshop) -> None:
    path = target_file(light, RUNNER)
    known = fingerprint_in(path)
    drift(light)
    line = run_python("-c", THRICE, env=light.environment(RELEASE)).stderr
    assert f"found {fingerprint_in(path)[:19]}" in line and known[:19] in line.partition("known ")[2]


def fingerprint_in(path: Path) -> str:
    lines = plain_lines(path.read_text("utf-8"))
    first = next(number for number, line in enumerate(lines, start=1) if "def _execute_mm_encoder" in line)
    return fingerprint(function_block(lines, first))


def test_each_target_has_its_own_line(light: Workshop) -> None:
    for module in TARGETS:
        edit_inside(target_file(light, module), module, lambda line: line + ";")
    lines = run_python("-c", THRICE, env=light.environment(RELEASE)).stderr.splitlines()
    assert [line.split()[1] for line in lines] == [UTILS, RUNNER]


@pytest.mark.parametrize(
    "how", ["sys.stderr = None", "sys.stderr.close()", "import os; os.close(2)", "sys.stderr = Broken()"]
)
@pytest.mark.parametrize("damage", ["drift", "damaged"])
def test_a_stderr_that_cannot_be_written_to_stops_nothing(light: Workshop, how: str, damage: str) -> None:
    if damage == "drift":
        drift(light)
    else:
        (light.hook / "gaudi_shadow" / "loader.py").write_text("(", "utf-8")
    broken = "import sys\nclass Broken:\n    def write(self, text): raise OSError('full')\n    flush = write\n"
    done = run_python("-c", broken + how + f"\nimport {RUNNER}\nprint('went on')", env=light.environment(RELEASE))
    assert done.stdout == "went on\n"


def test_a_line_is_not_lost_where_stderr_is_ascii_and_strict(tmp_path: Path) -> None:
    light = make_light(tmp_path / "gr\xf6\xdfe")
    drift(light)
    done = run_python("-c", THRICE, env=light.environment(RELEASE, PYTHONIOENCODING="ascii:strict"))
    assert done.returncode == 0
    [line] = done.stderr.splitlines()
    assert "gr\\xf6\\xdfe" in line and "mm-encoder-budget" in line


def test_a_patched_process_is_quiet(light: Workshop) -> None:
    done = run_python("-c", THRICE, env=light.environment(RELEASE))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_failing_handler_of_the_log_stops_nothing(light: Workshop) -> None:
    script = f"""
import logging
class Broken(logging.Handler):
    def emit(self, record): raise OSError("disk full")
logging.getLogger("vllm").addHandler(Broken())
logging.getLogger("vllm").setLevel("DEBUG")
import {RUNNER} as module
print(module.HPUModelRunner._execute_mm_encoder.__code__.co_filename)
"""
    done = run_python("-c", script, env=light.environment(RELEASE))
    assert done.returncode == 0 and "/overlays/" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\n b\t c", "a b c"), ("\x1b[2J", "\\x1b[2J"), ("gr\xf6\xdfe", "gr\xf6\xdfe"), ("\u202e", "\\u202e"), ("", "")],
)
def test_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_what_is_printable_keeps_its_spaces() -> None:
    assert printable("  a\n b\t\x1b\udcff \xf6") == "  a\\n b\\t\\x1b\\udcff \xf6"
