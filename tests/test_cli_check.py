"""`check` and `status`, run as commands: the states and the exit codes."""

from __future__ import annotations

import importlib.util
import py_compile
import shutil
from pathlib import Path

import pytest
from command_line import APPLIED, BUDGET, COVERED, MERGE, RUNNER_FILE, change, check, fixes_in, gaudi_shadow, states_in
from conftest import CHECKOUT, Workshop, clean_environment


def drift(tree: Path) -> None:
    """One character inside the runner's function."""
    change(tree, RUNNER_FILE, "if not missing:", "if  not missing:")


@pytest.mark.parametrize("release", sorted(APPLIED))
def test_applied(workshop: Workshop, release: str) -> None:
    report = check(workshop, release)
    assert states_in(report) == APPLIED[release]
    assert report["exit_code"] == 0
    assert report["hook"] == {
        "active": True,
        "route": "sitecustomize",
        "package": str(workshop.hook / "gaudi_shadow"),
        "version": report["version"],
        "reason": "",
        "todo": "",
    }
    tree = workshop.trees[release]
    assert report["release"] == {"version": release.removeprefix("v"), "source": "metadata", "root": str(tree)}
    assert fixes_in(report)[BUDGET]["file"] == str(tree / RUNNER_FILE)
    assert fixes_in(report)[BUDGET]["overlay"] == release


def test_an_overlay_that_no_real_tree_has_confirmed_says_so(workshop: Workshop) -> None:
    assert "could not be read" in fixes_in(check(workshop, "v0.30.0"))[COVERED]["note"]
    assert fixes_in(check(workshop, "v0.26.0"))[BUDGET]["note"] == ""


def test_the_budget_is_read_as_the_runner_would(workshop: Workshop) -> None:
    variable = "VLLM_HPU_MM_ENCODER_MAX_PATCHES"
    idle = check(workshop, "v0.26.0", BUDGET)
    assert fixes_in(idle)[BUDGET]["reason"] == f"applied but idle: set {variable}"
    budget = check(workshop, "v0.26.0", BUDGET, **{variable: " 4096 "})
    assert fixes_in(budget)[BUDGET]["reason"] == "applied with a budget of 4096 patches"
    broken = check(workshop, "v0.26.0", **{variable: "1e3"})
    assert states_in(broken) == APPLIED["v0.26.0"] | {BUDGET: "not applied"}
    assert variable in fixes_in(broken)[BUDGET]["reason"]
    assert broken["exit_code"] == 1


@pytest.mark.parametrize("word", ["0", "off", " False "])
def test_switched_off(workshop: Workshop, word: str) -> None:
    report = check(workshop, "v0.26.0", VLLM_GAUDI_SHADOW=word)
    assert states_in(report) == APPLIED["v0.26.0"] | {BUDGET: "not applied", MERGE: "not applied"}
    assert report["exit_code"] == 1
    assert report["hook"]["todo"] == fixes_in(report)[MERGE]["todo"] == "unset VLLM_GAUDI_SHADOW"


def test_without_a_hook_it_tells_the_two_ways_to_activate(workshop: Workshop) -> None:
    report = check(workshop, "v0.26.0", hooked=False)
    assert report["exit_code"] == 1
    assert not report["hook"]["active"]
    merge = fixes_in(report)[MERGE]
    assert merge["reason"] == "the hook is not active in a new interpreter"
    assert "install gaudi-shadow with pip" in merge["todo"]
    assert f"put {workshop.hook} first in PYTHONPATH" in merge["todo"]


def test_drift_wins_with_and_without_the_hook(own_workshop: Workshop) -> None:
    drift(own_workshop.trees["v0.26.0"])
    for hooked in (True, False):
        report = check(own_workshop, "v0.26.0", hooked=hooked)
        assert report["exit_code"] == 2
        assert states_in(report)[BUDGET] == "drifted"
        assert "_execute_mm_encoder has changed" in fixes_in(report)[BUDGET]["reason"]
        assert "gaudi-shadow check" not in fixes_in(report)[BUDGET]["todo"]
    assert check(own_workshop, "v0.26.0", MERGE)["exit_code"] == 0
    assert check(own_workshop, "v0.26.0", MERGE, BUDGET)["exit_code"] == 2


def test_status_prints_the_same_report_and_exits_0(own_workshop: Workshop) -> None:
    drift(own_workshop.trees["v0.26.0"])
    environment = own_workshop.environment("v0.26.0")
    checked, status = (gaudi_shadow(own_workshop.hook, name, env=environment) for name in ("check", "status"))
    assert (checked.returncode, status.returncode) == (2, 0)
    assert checked.stdout == status.stdout
    assert "exit code 2: a fix's source has drifted" in status.stdout


def test_a_change_outside_the_function_or_in_its_comments_is_no_drift(own_workshop: Workshop) -> None:
    tree = own_workshop.trees["v0.26.0"]
    change(tree, RUNNER_FILE, "if not missing:", "if not missing:  # nothing waits")
    change(tree, RUNNER_FILE, "that no fix touches", "that no fix changes")
    assert check(own_workshop, "v0.26.0")["exit_code"] == 0


def test_a_source_that_does_not_compile_has_drifted(own_workshop: Workshop) -> None:
    change(own_workshop.trees["v0.26.0"], RUNNER_FILE, "if not missing:", "if not missing")
    report = check(own_workshop, "v0.26.0", BUDGET)
    assert report["exit_code"] == 2
    assert "does not compile" in fixes_in(report)[BUDGET]["reason"]


def test_a_module_that_has_moved_has_drifted(own_workshop: Workshop) -> None:
    (own_workshop.trees["v0.26.0"] / RUNNER_FILE).unlink()
    report = check(own_workshop, "v0.26.0", BUDGET)
    assert report["exit_code"] == 2
    assert "there is no module vllm_gaudi.v1.worker.hpu_model_runner" in fixes_in(report)[BUDGET]["reason"]


def test_bytecode_that_does_not_belong_to_the_source_is_not_applied(own_workshop: Workshop, tmp_path: Path) -> None:
    path = own_workshop.trees["v0.26.0"] / RUNNER_FILE
    other = tmp_path / "other.py"
    other.write_text(path.read_text("utf-8").replace("if not missing:", "if missing == []:"), "utf-8")
    py_compile.compile(
        str(other),
        cfile=importlib.util.cache_from_source(str(path)),
        dfile=str(path),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    report = check(own_workshop, "v0.26.0", BUDGET)
    assert report["exit_code"] == 1
    assert "bytecode does not match source" in fixes_in(report)[BUDGET]["reason"]


def test_disabled(workshop: Workshop) -> None:
    report = check(workshop, "v0.26.0", VLLM_GAUDI_SHADOW_DISABLE=f"{MERGE}, no-such-fix")
    assert states_in(report) == APPLIED["v0.26.0"] | {MERGE: "disabled"}
    assert report["exit_code"] == 1
    assert ["no-such-fix" in note for note in report["notes"]] == [True]
    assert check(workshop, "v0.26.0", BUDGET, VLLM_GAUDI_SHADOW_DISABLE=MERGE)["exit_code"] == 0


def test_a_real_release(release_root: Path, tmp_path: Path) -> None:
    """Exit 0 with the hook, 1 without it, 2 after one character of a function has changed."""
    tree = tmp_path / "tree"
    shutil.copytree(release_root / "vllm_gaudi", tree / "vllm_gaudi")
    hook, environment = tmp_path / "hook", clean_environment(PYTHONPATH=str(CHECKOUT))
    hook.symlink_to(CHECKOUT)

    def code(**variables: str) -> int:
        return gaudi_shadow(hook, "check", "--root", tree, env={**environment, **variables}).returncode

    assert code() == 0
    assert code(VLLM_GAUDI_SHADOW="0") == 1
    path = tree / RUNNER_FILE
    before, name, after = path.read_text("utf-8").partition("_execute_mm_encoder(self")
    path.write_text(before + name + after.replace(" = ", "  = ", 1), "utf-8")
    assert code() == 2
