"""`run` and `path`, and the frame of the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import gaudi_shadow, script_for
from conftest import CHECKOUT, Workshop, bare_python, clean_environment

from gaudi_shadow.cli import COMMANDS

PRINT_PATH = "import os; print(repr(os.environ['PYTHONPATH']))"


def run(hook: Path, *command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    return gaudi_shadow(hook, "run", *command, env=clean_environment(**variables), cwd=cwd)


def installed(folder: Path) -> Path:
    """The package as pip lays it out, beside somebody else's sitecustomize."""
    shutil.copytree(CHECKOUT / "gaudi_shadow", folder / "gaudi_shadow", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "sitecustomize.py", folder / "gaudi_shadow" / "inject")
    (folder / "sitecustomize.py").write_text('"""Somebody else\'s."""\n')
    return folder


def test_path_is_the_folder_that_activates(workshop: Workshop, tmp_path: Path) -> None:
    site_packages = installed(tmp_path / "site-packages")
    for hook, expected in ((workshop.hook, workshop.hook), (site_packages, site_packages / "gaudi_shadow" / "inject")):
        done = gaudi_shadow(hook, "path", env=clean_environment())
        assert (done.returncode, done.stdout) == (0, f"{expected}\n")


def test_path_is_never_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    site_packages = installed(tmp_path / "site-packages")
    (site_packages / "gaudi_shadow" / "inject" / "sitecustomize.py").unlink()
    for command in (["path"], ["run", "--", "true"]):
        done = gaudi_shadow(site_packages, *command, env=clean_environment())
        assert (done.returncode, done.stdout) == (64, "")
        assert "reinstall gaudi-shadow" in done.stderr


@pytest.mark.parametrize("users", ["", "/a", "/a:/b", ":/a", "/a:", "/a::/b", ":"])
def test_run_keeps_the_users_entries_letter_for_letter(workshop: Workshop, users: str) -> None:
    done = run(workshop.hook, "--", sys.executable, "-c", PRINT_PATH, PYTHONPATH=users)
    assert done.stdout == repr(f"{workshop.hook}:{users}" if users else str(workshop.hook)) + "\n"


def test_run_in_run_adds_nothing(workshop: Workshop) -> None:
    inner = ["--", sys.executable, str(script_for(workshop.hook)), "run", "--", sys.executable, "-c", PRINT_PATH]
    assert run(workshop.hook, *inner, PYTHONPATH="/a").stdout == f"'{workshop.hook}:/a'\n"


def test_run_activates_the_hook_and_adds_no_other_folder_to_sys_path(workshop: Workshop, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, sys\n"
        "from gaudi_shadow.startup import installed_finder\n"
        "print(json.dumps([installed_finder().route, sys.path[1], os.getcwd() in sys.path, '' in sys.path]))\n"
    )
    done = run(workshop.hook, "--", bare_python(), str(script), cwd=workshop.hook.parent)
    assert json.loads(done.stdout) == ["sitecustomize", str(workshop.hook), False, False]


def test_run_hands_over_arguments_and_exit_code_with_or_without_the_dashes(workshop: Workshop) -> None:
    program = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(7)"
    for dashes in (["--"], []):
        command = [*dashes, sys.executable, "-c", program, "--root", "--", "-h", "--", ""]
        done = run(workshop.hook, *command)
        assert (done.returncode, json.loads(done.stdout)) == (7, ["--root", "--", "-h", "--", ""])


def test_run_becomes_the_command(workshop: Workshop) -> None:
    command = [sys.executable, script_for(workshop.hook), "run", "--", "sh", "-c", "echo $$"]
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, text=True) as child:
        output, _ = child.communicate(timeout=60)
    assert output == f"{child.pid}\n"


def test_what_run_starts_ends_quietly_when_its_reader_has_gone(workshop: Workshop) -> None:
    command = [sys.executable, script_for(workshop.hook), "run", "--", "sh", "-c", "while :; do echo y || exit 9; done"]
    with subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        error = child.stderr.read()
        code = child.wait(timeout=60)
    assert (code, error) == (-13, b"")


def test_what_run_cannot_start(workshop: Workshop, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    no_interpreter = tmp_path / "no-interpreter"
    no_interpreter.write_text("#!/no/such/interpreter\n")
    no_interpreter.chmod(0o755)
    assert run(workshop.hook, "--", "").stderr == "gaudi-shadow run: '': command not found\n"
    for command, code, words in (
        ("no-such-command", 127, "command not found"),
        (str(no_interpreter), 127, "not found"),
        (str(plain), 126, "Permission denied"),
        (str(tmp_path), 126, "Permission denied"),
    ):
        done = run(workshop.hook, "--", command)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith(f"gaudi-shadow run: {command}: ") and words in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [[], ["--"]])
def test_run_without_a_command_is_a_usage_error(workshop: Workshop, command: list[str]) -> None:
    done = run(workshop.hook, *command)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)


def test_a_folder_that_pythonpath_cannot_name_is_refused(tmp_path: Path) -> None:
    site_packages = installed(tmp_path / "a:b")
    done = run(site_packages, "--", "true")
    assert done.returncode == 64
    assert "PYTHONPATH cannot name it" in done.stderr


def test_a_damaged_command_stops_no_other(own_workshop: Workshop) -> None:
    (own_workshop.hook / "gaudi_shadow" / "commands" / "plan.py").write_text("def")
    assert gaudi_shadow(own_workshop.hook, "path", env=clean_environment()).returncode == 0
    damaged = gaudi_shadow(own_workshop.hook, "plan", env=clean_environment())
    assert (damaged.returncode, damaged.stderr.count("\n")) == (64, 1)


def test_the_help_shows_how_a_command_is_given(workshop: Workshop) -> None:
    assert "usage: gaudi-shadow run [-h] -- COMMAND ...\n" in run(workshop.hook, "--help").stdout


def test_the_version_and_the_list_of_commands(workshop: Workshop) -> None:
    assert gaudi_shadow(workshop.hook, "--version", env=clean_environment()).stdout.startswith("gaudi-shadow ")
    done = gaudi_shadow(workshop.hook, "--help", env=clean_environment())
    assert done.returncode == 0
    assert [name for name in COMMANDS if f"\n    {name} " not in done.stdout] == []


@pytest.mark.parametrize("name", ["check", "status", "show", "diff", "run", "path"])
def test_the_reference_has_a_section_for_the_command_that_names_its_options(workshop: Workshop, name: str) -> None:
    text = gaudi_shadow(workshop.hook, name, "--help", env=clean_environment()).stdout
    _, _, rest = (CHECKOUT / "docs" / "cli.md").read_text("utf-8").partition(f"\n## {name}\n")
    section = rest.partition("\n## ")[0]
    assert section
    assert set(re.findall(r"--[a-z]+", text)) - {"--help"} <= set(re.findall(r"--[a-z]+", section))


def test_run_changes_one_variable_and_needs_no_python(workshop: Workshop) -> None:
    done = run(workshop.hook, "--", "env")
    assert f"PYTHONPATH={workshop.hook}" in done.stdout.splitlines()
    assert {line.partition("=")[0] for line in done.stdout.splitlines()} - set(os.environ) <= {"PYTHONPATH", "LC_CTYPE"}
