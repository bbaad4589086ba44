"""`check` and `status`, run as commands: the states, the exit codes and what the report says."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import re
import shutil
import sys
from pathlib import Path

import pytest
from command_line import fixes_in, gaudi_shadow, report_of, states_in
from conftest import CHECKOUT, Workshop, clean_environment

BUDGET, MERGE, COVERED = "mm-encoder-budget", "mm-merge-idxcopy", "mm-encoder-covered"
APPLIED = {"v0.26.0": {BUDGET: "applied", MERGE: "applied", COVERED: "not needed"}}
APPLIED["v0.30.0"] = APPLIED["v0.26.0"] | {COVERED: "applied"}
RUNNER_FILE = "vllm_gaudi/v1/worker/hpu_model_runner.py"
UTILS_FILE = "vllm_gaudi/models/utils.py"


def check(workshop: Workshop, release: str, *args: str | Path, hooked: bool = True, **variables: str):
    """`check --json` for a release on PYTHONPATH; gives the report, whose exit code is the command's."""
    environment = workshop.environment(release, hooked=hooked, **variables)
    return report_of(gaudi_shadow(workshop.hook, "check", "--json", *args, env=environment))


def change(tree: Path, file: str, old: str, new: str) -> None:
    """Replace one piece of text in a file of a tree."""
    path = tree / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def drift(tree: Path) -> None:
    """One character inside the runner's function."""
    change(tree, RUNNER_FILE, "if not missing:", "if  not missing:")


def hidden_sitecustomize(folder: Path, text: str) -> str:
    """A user's sitecustomize; returns its folder for PYTHONPATH."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(text, "utf-8")
    return str(folder)


def on_path(*folders: Path | str, **variables: str) -> dict[str, str]:
    """An environment with these folders on PYTHONPATH."""
    return clean_environment(PYTHONPATH=os.pathsep.join(map(str, folders)), **variables)


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
    assert states_in(report) == {BUDGET: "not applied", MERGE: "not applied", COVERED: "not needed"}
    assert report["exit_code"] == 1
    assert report["hook"]["todo"] == fixes_in(report)[MERGE]["todo"] == "unset VLLM_GAUDI_SHADOW"


def test_without_a_hook_it_tells_the_two_ways_to_activate(workshop: Workshop) -> None:
    report = check(workshop, "v0.26.0", hooked=False)
    assert report["exit_code"] == 1
    assert not report["hook"]["active"]
    merge = fixes_in(report)[MERGE]
    assert merge["reason"] == "the hook is not active in a new interpreter"
    assert "pip install gaudi-shadow" in merge["todo"]
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


def test_vllm_gaudi_not_found(workshop: Workshop) -> None:
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=on_path(workshop.hook)))
    assert report["exit_code"] == 1
    assert report["release"] is None
    assert set(states_in(report).values()) == {"not applied"}
    assert "finds no vllm_gaudi" in fixes_in(report)[MERGE]["reason"]
    assert "--root" in fixes_in(report)[MERGE]["todo"]


def test_a_folder_that_an_uninstall_left_behind_is_no_vllm_gaudi(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "vllm_gaudi" / "models").mkdir(parents=True)
    done = gaudi_shadow(workshop.hook, "check", "--json", env=on_path(workshop.hook, tmp_path))
    assert "finds no vllm_gaudi" in fixes_in(report_of(done))[MERGE]["reason"]


def test_root_comes_before_what_is_installed(workshop: Workshop, tmp_path: Path) -> None:
    report = check(workshop, "v0.26.0", "--root", workshop.trees["v0.30.0"])
    assert report["release"]["version"] == "0.30.0"
    assert states_in(report) == APPLIED["v0.30.0"]
    relative = os.path.relpath(workshop.trees["v0.30.0"], workshop.hook.parent)
    assert check(workshop, "v0.26.0", "--root", relative)["release"] == report["release"]
    elsewhere = check(workshop, "v0.26.0", "--root", tmp_path)
    assert elsewhere["exit_code"] == 1
    assert f"not in {tmp_path}" in fixes_in(elsewhere)[MERGE]["reason"]


def test_root_that_holds_python_modules_of_its_own_lends_none_to_us(own_workshop: Workshop) -> None:
    tree = own_workshop.trees["v0.26.0"]
    for name in ("packaging", "email", "difflib"):
        (tree / f"{name}.py").write_text("raise SystemExit('a module of --root was executed')\n")
    done = gaudi_shadow(own_workshop.hook, "check", "--json", "--root", tree, env=on_path(own_workshop.hook))
    assert states_in(report_of(done)) == APPLIED["v0.26.0"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "mm-merge"], "the fixes are mm-encoder-budget, mm-encoder-covered, mm-merge-idxcopy"),
        (["status", "mm-merge"], "no fix is called mm-merge"),
        (["check", "--root", "no-such-folder"], "no-such-folder"),
        (["check", "--no-such-option"], "--no-such-option"),
        (["no-such-command"], "no-such-command"),
        ([], "COMMAND"),
    ],
)
def test_what_cannot_be_asked_exits_64(workshop: Workshop, arguments: list[str], words: str) -> None:
    done = gaudi_shadow(workshop.hook, *arguments, env=workshop.environment("v0.26.0"))
    assert (done.returncode, done.stdout) == (64, "")
    assert words in done.stderr.splitlines()[-1]


def test_nothing_of_vllm_gaudi_is_executed_and_nothing_is_written(own_workshop: Workshop) -> None:
    tree = own_workshop.trees["v0.26.0"]
    for path in tree.rglob("*.py"):
        path.write_text(path.read_text("utf-8") + "\nraise SystemExit('executed')\n", "utf-8")
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    environment = own_workshop.environment("v0.26.0")
    for command in (["check"], ["status"], ["diff"], ["show", UTILS_FILE]):
        done = gaudi_shadow(own_workshop.hook, *command, env=environment)
        assert (done.returncode, done.stderr) == (0, ""), command
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


def test_the_current_folder_shadows_nothing(workshop: Workshop, tmp_path: Path) -> None:
    shutil.copytree(workshop.trees["v0.30.0"] / "vllm_gaudi", tmp_path / "vllm_gaudi")
    for name in ("json", "importlib", "release", "finder"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder was executed')\n")
    environment = workshop.environment("v0.26.0")
    done = gaudi_shadow(workshop.hook, "check", "--json", env=environment, cwd=tmp_path)
    assert report_of(done)["release"]["version"] == "0.26.0"


def test_an_empty_entry_of_the_users_counts_as_python_has_it(workshop: Workshop) -> None:
    environment = on_path(workshop.hook, "", workshop.trees["v0.26.0"])
    done = gaudi_shadow(workshop.hook, "check", "--json", env=environment, cwd=workshop.trees["v0.30.0"])
    assert report_of(done)["release"]["version"] == "0.30.0"


def test_what_a_sitecustomize_prints_is_kept_apart_and_shown(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(
        tmp_path / "users",
        IN_THE_NEW_INTERPRETER.format(end=""),
    )
    environment = on_path(workshop.hook, users, workshop.trees["v0.26.0"])
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))
    assert report["exit_code"] == 0
    assert report["printed"] == ["on stdout", "on stderr"]


@pytest.mark.parametrize("end", ["raise SystemExit('no licence')", "__import__('os')._exit(1)"])
def test_an_interpreter_that_does_not_start_is_not_applied(workshop: Workshop, tmp_path: Path, end: str) -> None:
    users = hidden_sitecustomize(tmp_path / "users", IN_THE_NEW_INTERPRETER.format(end=end))
    environment = on_path(workshop.hook, users, workshop.trees["v0.26.0"])
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))
    assert report["exit_code"] == 1
    assert set(states_in(report)) == {BUDGET, MERGE, COVERED}
    last = "no licence" if "licence" in end else "on stderr"
    assert re.search(f"it ended with code 1 before it answered: .*{last}$", fixes_in(report)[MERGE]["reason"])


BYPASS = """
import sys
from importlib.machinery import PathFinder


class Bypass(PathFinder):
    pass


sys.meta_path.insert(0, Bypass)
"""

# As ddtrace's module watchdog does it.
PASS_ON = """
import sys


class PassOn:
    busy = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if cls.busy:
            return None
        cls.busy = True
        try:
            answers = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not cls)
            return next(filter(None, answers), None)
        finally:
            cls.busy = False


sys.meta_path.insert(0, PassOn)
"""

EDITABLE = """
import sys
from importlib.util import spec_from_file_location


class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "vllm_gaudi":
            return None
        from messages import MAPPING  # the user's, although a module of ours has the same name

        return spec_from_file_location(name, MAPPING[name])


sys.meta_path.append(Editable)
"""

TOO_LATE = """
import sys
import types

sys.modules["vllm_gaudi.models.utils"] = types.ModuleType("vllm_gaudi.models.utils")
sys.path.insert(0, {hook!r})
from gaudi_shadow.startup import install

install("mine")
"""

IN_THE_NEW_INTERPRETER = """
import sys

if "probe.py" in str(sys.orig_argv):
    print("on stdout", flush=True)
    print("on stderr", file=sys.stderr)
    {end}
"""


def test_a_finder_that_answers_before_ours_is_named(workshop: Workshop, tmp_path: Path) -> None:
    environment = on_path(workshop.hook, hidden_sitecustomize(tmp_path / "users", BYPASS), workshop.trees["v0.26.0"])
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))
    assert states_in(report)[MERGE] == "not applied"
    assert fixes_in(report)[MERGE]["reason"] == "the finder sitecustomize.Bypass answers before ours"


def test_a_finder_that_asks_ours_is_no_obstacle(workshop: Workshop, tmp_path: Path) -> None:
    environment = on_path(workshop.hook, hidden_sitecustomize(tmp_path / "users", PASS_ON), workshop.trees["v0.26.0"])
    assert states_in(report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))) == APPLIED["v0.26.0"]


def test_a_sitecustomize_that_hides_ours_is_named(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path / "users", "")
    environment = on_path(users, workshop.hook, workshop.trees["v0.26.0"])
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))
    assert report["hook"]["reason"].startswith(f"{users}/sitecustomize.py comes before our sitecustomize.py")
    assert report["hook"]["todo"] == f"put {workshop.hook} first in PYTHONPATH"


def test_a_finder_that_was_taken_away_is_missed(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path / "users", "import sys\ndel sys.meta_path[0]\n")
    environment = on_path(workshop.hook, users, workshop.trees["v0.26.0"])
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))
    assert (report["exit_code"], report["hook"]["active"]) == (1, False)
    assert "its finder is not on sys.meta_path" in report["hook"]["reason"]


def test_a_target_imported_before_the_hook_is_too_late(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path / "users", TOO_LATE.format(hook=str(workshop.hook)))
    done = gaudi_shadow(workshop.hook, "check", "--json", env=on_path(users, workshop.trees["v0.26.0"]))
    report = json.loads(done.stdout)
    assert states_in(report) == APPLIED["v0.26.0"] | {MERGE: "not applied"}
    assert "imported before the hook" in fixes_in(report)[MERGE]["reason"]
    assert report["hook"]["route"] == "mine"


def test_an_editable_install_with_a_finder_of_its_own_is_found(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path / "users", EDITABLE)
    init = workshop.trees["v0.26.0"] / "vllm_gaudi" / "__init__.py"
    Path(users, "messages.py").write_text(f"MAPPING = {{'vllm_gaudi': {str(init)!r}}}\n", "utf-8")
    environment = on_path(workshop.hook, users)
    report = report_of(gaudi_shadow(workshop.hook, "check", "--json", env=environment))
    assert states_in(report) == APPLIED["v0.26.0"]


def test_packages_without_an_init_file_are_found(own_workshop: Workshop) -> None:
    for inner in ("v1", "v1/worker", "models"):
        (own_workshop.trees["v0.26.0"] / "vllm_gaudi" / inner / "__init__.py").unlink()
    assert states_in(check(own_workshop, "v0.26.0")) == APPLIED["v0.26.0"]


def test_a_zip_file_is_a_release_too(workshop: Workshop, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "release"), "zip", workshop.trees["v0.26.0"])
    for environment, arguments in (
        (on_path(workshop.hook, archive), []),
        (on_path(workshop.hook), ["--root", archive]),
    ):
        report = report_of(gaudi_shadow(workshop.hook, "check", "--json", *arguments, env=environment))
        assert states_in(report) == APPLIED["v0.26.0"]
        assert report["release"] == {"version": "0.26.0", "source": "metadata", "root": archive}


@pytest.mark.parametrize(
    ("file", "text", "states"),
    [
        ("overlays/v0.26.0/vllm_gaudi/models/utils.py", "def", {MERGE: "not applied"}),
        ("fixes/mm_encoder_budget.py", "def", {BUDGET: "not applied"}),
        ("overlays/v0.30.0/manifest.json", "{", {}),
    ],
)
def test_a_broken_part_of_ours_spoils_its_own_fixes(
    own_workshop: Workshop, file: str, text: str, states: dict[str, str]
) -> None:
    (own_workshop.hook / "gaudi_shadow" / file).write_text(text)
    report = check(own_workshop, "v0.26.0")
    known = {name: state for name, state in APPLIED["v0.26.0"].items() if name in states_in(report)}
    assert states_in(report) == known | states
    assert report["exit_code"] == (1 if states else 0)


def test_a_fix_whose_manifest_is_broken_is_not_applied_and_no_typo(own_workshop: Workshop) -> None:
    (own_workshop.hook / "gaudi_shadow/overlays/v0.30.0/manifest.json").write_text("{")
    report = check(own_workshop, "v0.26.0", COVERED)
    assert (report["exit_code"], states_in(report)) == (1, {COVERED: "not applied"})
    assert "overlays/v0.30.0/manifest.json: not JSON" in fixes_in(report)[COVERED]["reason"]


def test_without_any_manifest_every_fix_is_not_applied(own_workshop: Workshop) -> None:
    shutil.rmtree(own_workshop.hook / "gaudi_shadow/overlays")
    for arguments in ([], [MERGE]):
        report = check(own_workshop, "v0.26.0", *arguments)
        assert report["exit_code"] == 1
        assert "overlays" in report["fixes"][0]["reason"]


def test_a_damaged_package_is_not_applied(own_workshop: Workshop) -> None:
    (own_workshop.hook / "gaudi_shadow/release.py").write_text("def")
    report = check(own_workshop, "v0.26.0")
    assert report["exit_code"] == 1
    assert "SyntaxError" in report["fixes"][0]["reason"]


def test_the_text_report_is_aligned_and_complete(workshop: Workshop) -> None:
    done = gaudi_shadow(workshop.hook, "check", env=workshop.environment("v0.30.0"))
    head, *fixes, last = done.stdout.rstrip("\n").split("\n\n")
    columns = {re.match(r"\S+(?: \S+)?  +", line).end() for line in head.splitlines()}
    assert len(columns) == 1
    assert [block.splitlines()[0] for block in fixes] == [
        f"{MERGE}: applied",
        f"{BUDGET}: applied",
        f"{COVERED}: applied",
    ]
    assert last == "exit code 0: each fix is applied or not needed"
    for words in (
        f"{sys.version_info[0]}.{sys.version_info[1]}.",
        "by sitecustomize",
        "0.30.0 (read from its metadata)",
        "unconfirmed",
    ):
        assert words in head


def test_the_reference_names_every_field_of_the_json_report(workshop: Workshop) -> None:
    report = check(workshop, "v0.26.0")
    fields = {*report, *report["python"], *report["hook"], *report["release"], *report["fixes"][0]}
    reference = (CHECKOUT / "docs" / "cli.md").read_text("utf-8")
    assert {field for field in fields if f"`{field}`" not in reference} == set()


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
