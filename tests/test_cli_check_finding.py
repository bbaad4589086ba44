"""Which vllm_gaudi `check` finds, and that it executes and writes nothing of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from command_line import (
    APPLIED,
    MERGE,
    UTILS_FILE,
    check,
    checked,
    fixes_in,
    gaudi_shadow,
    hidden_sitecustomize,
    on_path,
    states_in,
)
from conftest import Workshop

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


def test_vllm_gaudi_not_found(workshop: Workshop) -> None:
    report = checked(workshop.hook, env=on_path(workshop.hook))
    assert report["exit_code"] == 1
    assert report["release"] is None
    assert set(states_in(report).values()) == {"not applied"}
    assert "finds no vllm_gaudi" in fixes_in(report)[MERGE]["reason"]
    assert "--root" in fixes_in(report)[MERGE]["todo"]


def test_a_folder_that_an_uninstall_left_behind_is_no_vllm_gaudi(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "vllm_gaudi" / "models").mkdir(parents=True)
    report = checked(workshop.hook, env=on_path(workshop.hook, tmp_path))
    assert "finds no vllm_gaudi" in fixes_in(report)[MERGE]["reason"]


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
    report = checked(own_workshop.hook, "--root", tree, env=on_path(own_workshop.hook))
    assert states_in(report) == APPLIED["v0.26.0"]


def test_the_current_folder_shadows_nothing(workshop: Workshop, tmp_path: Path) -> None:
    shutil.copytree(workshop.trees["v0.30.0"] / "vllm_gaudi", tmp_path / "vllm_gaudi")
    for name in ("json", "importlib", "release", "finder"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder was executed')\n")
    report = checked(workshop.hook, env=workshop.environment("v0.26.0"), cwd=tmp_path)
    assert report["release"]["version"] == "0.26.0"


def test_an_empty_entry_of_the_users_counts_as_python_has_it(workshop: Workshop) -> None:
    environment = on_path(workshop.hook, "", workshop.trees["v0.26.0"])
    report = checked(workshop.hook, env=environment, cwd=workshop.trees["v0.30.0"])
    assert report["release"]["version"] == "0.30.0"


def test_an_editable_install_with_a_finder_of_its_own_is_found(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path / "users", EDITABLE)
    init = workshop.trees["v0.26.0"] / "vllm_gaudi" / "__init__.py"
    Path(users, "messages.py").write_text(f"MAPPING = {{'vllm_gaudi': {str(init)!r}}}\n", "utf-8")
    assert states_in(checked(workshop.hook, env=on_path(workshop.hook, users))) == APPLIED["v0.26.0"]


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
        report = checked(workshop.hook, *arguments, env=environment)
        assert states_in(report) == APPLIED["v0.26.0"]
        assert report["release"] == {"version": "0.26.0", "source": "metadata", "root": archive}


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
