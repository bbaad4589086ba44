"""A function that is not the known one stays stock, is said in one line, and does not stop the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from adversity.light import (
    FUNCTIONS,
    RELEASE,
    TARGETS,
    ask,
    change,
    edit_inside,
    edit_outside,
    target_file,
)
from conftest import RUNNER, UTILS, Workshop, run_python

Edit = Callable[[Path, str, Callable[[str], str]], None]
FIXES = {UTILS: ["mm-merge-idxcopy"], RUNNER: ["mm-encoder-budget", "mm-encoder-covered"]}


def other(module: str) -> str:
    return RUNNER if module == UTILS else UTILS


@pytest.mark.parametrize("module", TARGETS)
def test_one_character_inside_is_refused_and_said_once(light: Workshop, module: str) -> None:
    file = target_file(light, module)
    edit_inside(file, module, lambda line: line + ";")
    answer = ask(light.environment(RELEASE))
    assert not answer.is_patched(module)
    assert answer.files[module] == str(file)
    assert answer.is_patched(other(module)), "one drifted function must not stop the other"
    [line] = answer.lines
    for word in (*FIXES[module], module, str(file), FUNCTIONS[module], "drifted", "gaudi-shadow check"):
        assert word in line
    assert re.search(r"found sha256:[0-9a-f]{12}, known sha256:[0-9a-f]{12}", line)


@pytest.mark.parametrize("module", TARGETS)
def test_check_says_drift_with_its_exit_code(light: Workshop, module: str) -> None:
    environment = light.environment(RELEASE)
    assert run_python("-m", "gaudi_shadow", "check", env=environment).returncode == 0
    edit_inside(target_file(light, module), module, lambda line: line + ";")
    assert run_python("-m", "gaudi_shadow", "check", env=environment).returncode == 2
    for fix in FIXES[other(module)]:
        assert run_python("-m", "gaudi_shadow", "check", fix, env=environment).returncode == 0


@pytest.mark.parametrize("module", TARGETS)
def test_strict_refuses_the_import_and_names_the_same(light: Workshop, module: str) -> None:
    file = target_file(light, module)
    edit_inside(file, module, lambda line: line + ";")
    answer = ask(light.environment(RELEASE, VLLM_GAUDI_SHADOW_STRICT="1"))
    assert answer.imports[other(module)] == "imported"
    for word in ("gaudi-shadow: VLLM_GAUDI_SHADOW_STRICT is set", *FIXES[module], module, str(file)):
        assert word in answer.imports[module]
    assert answer.lines == []


@pytest.mark.parametrize("module", TARGETS)
@pytest.mark.parametrize(
    ("edit", "added"),
    [(edit_outside, " # outside"), (edit_inside, "  # a remark"), (edit_inside, "   ")],
    ids=["outside", "a comment inside", "white space at a line's end"],
)
def test_what_does_not_change_the_function_is_applied(light: Workshop, module: str, edit: Edit, added: str) -> None:
    edit(target_file(light, module), module, lambda line: line + added)
    answer = ask(light.environment(RELEASE))
    assert answer.is_patched(module)
    assert answer.lines == []


def test_a_module_that_rebinds_the_function_keeps_none_of_ours(light: Workshop) -> None:
    """The stock module's last word counts, and what it kept under another name is stock again too."""
    path = target_file(light, UTILS)
    path.write_text(
        path.read_text("utf-8")
        + "_kept = _merge_multimodal_embeddings\n"
        + "def _merge_multimodal_embeddings(*args):\n    return _kept(*args)\n",
        "utf-8",
    )
    script = f"""
import sys
import {UTILS} as module
from vllm.model_executor.models import utils
for function in (module._merge_multimodal_embeddings, module._kept, utils._merge_multimodal_embeddings):
    print(function.__code__.co_filename)
"""
    done = run_python("-c", script, env=light.environment(RELEASE))
    assert done.stdout.split() == [str(path)] * 3
    assert "where one is expected" in done.stderr
    change(path, "def _merge_multimodal_embeddings(*args):\n    return _kept(*args)\n", f"{FUNCTIONS[UTILS]} = len\n")
    done = run_python("-c", script.replace("module._merge_multimodal_embeddings, ", ""), env=light.environment(RELEASE))
    assert done.stdout.split() == [str(path)] * 2
    assert "put something else in the place of _merge_multimodal_embeddings" in done.stderr
    assert len(done.stderr.splitlines()) == 1
