"""Our variables in vLLM's table of the names that it knows."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from activation.places import run
from activation.shared import bare_venv, checkout
from conftest import UTILS, clean_environment

from gaudi_shadow import vllm_environ
from gaudi_shadow.fixes import mm_encoder_budget
from gaudi_shadow.switches import DISABLE


def test_the_names_are_those_that_we_read() -> None:
    assert set(vllm_environ.NAMES) == {
        "VLLM_GAUDI_SHADOW",
        "VLLM_GAUDI_SHADOW_STRICT",
        DISABLE,
        mm_encoder_budget.VARIABLE,
    }


def test_vllms_table_learns_our_names_and_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ModuleType("vllm.envs")
    envs.environment_variables = {"VLLM_GAUDI_SHADOW": "taken", "VLLM_X": "x"}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.envs", envs)
    monkeypatch.setenv(DISABLE, "a,b")
    vllm_environ.register_names()
    table = envs.environment_variables
    assert set(table) == {*vllm_environ.NAMES, "VLLM_X"}
    assert table["VLLM_GAUDI_SHADOW"] == "taken" and table[DISABLE]() == "a,b"
    monkeypatch.delenv(DISABLE)
    assert table[DISABLE]() is None


@pytest.mark.parametrize("table", [None, (), "text"])
def test_a_vllm_without_such_a_table_is_left_alone(monkeypatch: pytest.MonkeyPatch, table: object) -> None:
    envs = ModuleType("vllm.envs")
    envs.environment_variables = table  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.envs", envs)
    vllm_environ.register_names()
    assert envs.environment_variables is table


def test_without_vllm_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm.envs", raising=False)
    vllm_environ.register_names()
    assert "vllm.envs" not in sys.modules


@pytest.mark.parametrize("variables", [{}, {DISABLE: "mm-merge-idxcopy"}], ids=["patched", "stock"])
def test_without_the_plugin_the_loader_registers_the_names(variables: dict[str, str]) -> None:
    program = f"import vllm.envs, json, {UTILS}; print(json.dumps(sorted(vllm.envs.environment_variables)))"
    env = clean_environment(PYTHONPATH=str(checkout()), **variables)
    found = json.loads(run(bare_venv().python, "-c", program, env=env).stdout)
    assert found == sorted(vllm_environ.NAMES)
