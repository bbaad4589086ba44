"""Bytecode that was not compiled from a function's text is told from bytecode that was, by every Python."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from activation.interpreters import supported
from conftest import CHECKOUT, clean_environment, run_python

PROBE = Path(__file__).parent / "adversity" / "belonging.py"


@cache
def found_by(version: str) -> dict:
    environment = clean_environment(PYTHONPATH=str(CHECKOUT), PYTHONDONTWRITEBYTECODE="1", VLLM_GAUDI_SHADOW="0")
    done = run_python(PROBE, env=environment, python=supported()[version])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", supported())
@pytest.mark.parametrize("where", ["pairs", "in a class"])
def test_other_bytecode_is_refused(version: str, where: str) -> None:
    answers = found_by(version)[where]
    assert len(answers) >= 22
    assert answers.pop("the same") is True
    assert [name for name, belongs in answers.items() if belongs] == []


@pytest.mark.parametrize("version", supported())
def test_a_method_of_an_imported_name_is_recognised(version: str) -> None:
    """CPython compiles `name.method()` in two ways (is_import_originated in its compiler), and both are the text's."""
    answers = found_by(version)["imports"]
    assert len(answers) > 20
    assert [name for name, belongs in answers.items() if not belongs] == []


@pytest.mark.parametrize("version", supported())
def test_every_function_of_the_library_is_recognised(version: str) -> None:
    answers = found_by(version)["library"]
    assert sum(count for count, _ in answers.values()) > 150
    assert {module: wrong for module, (_, wrong) in answers.items() if wrong} == {}
