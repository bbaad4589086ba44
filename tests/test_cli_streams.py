"""The command line where stdout or stderr is closed or full, and in a Python that is too old for it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import gaudi_shadow, script_for
from conftest import CHECKOUT, Workshop, bare_python, clean_environment, run_python

from gaudi_shadow.cli import COMMANDS

# One error of each command, where stderr is the only place for it; `path` has none but a damaged package.
ERRORS = {
    "check": (["check", "no-such-fix"], 64),
    "status": (["status", "--rot"], 64),
    "show": (["show", "no.such.module"], 64),
    "diff": (["diff", "vllm_gaudi.models.utils"], 1),
    "run": (["run", "--", "no-such-command"], 127),
    "path": (["path", "--rot"], 64),
    "demo": (["demo", "--root", "no-such-folder"], 64),
    "plan": (["plan"], 64),
    "releases": (["releases", "--rot"], 64),
    "verify": (["verify", "--root", "."], 1),
    "report": (["report", "--root", "no-such-folder"], 64),
}


def redirected(workshop: Workshop, redirection: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command with a redirection of the shell's."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", bare_python(), script_for(workshop.hook), *arguments]
    done = subprocess.run(
        command,
        env=clean_environment(**variables),
        cwd=workshop.hook.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_goes_nowhere_when_stderr_is_closed(workshop: Workshop, name: str) -> None:
    arguments, code = ERRORS[name]
    said = gaudi_shadow(workshop.hook, *arguments, env=clean_environment())
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (code, "", 1)
    assert redirected(workshop, "2>&-", *arguments) == (code, "", "")


@pytest.mark.parametrize("arguments", [["path"], ["check", "--json"], ["releases"], ["--help"]], ids=" ".join)
def test_a_full_stdout_is_said_in_one_line(workshop: Workshop, arguments: list[str]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    code, _, error = redirected(workshop, ">/dev/full", *arguments)
    assert (code, error.count("\n")) == (64, 1), error
    assert "stdout cannot be written" in error and "No space left" in error
    assert redirected(workshop, ">/dev/full 2>&1", *arguments) == (64, "", "")


def test_a_full_stdout_without_a_buffer_is_said_too(workshop: Workshop) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    code, _, error = redirected(workshop, ">/dev/full", "path", PYTHONUNBUFFERED="1")
    assert (code, error.count("\n")) == (64, 1) and "No space left" in error


def old_pythons() -> dict[str, Path]:
    """Version -> each Python before 3.10 that is on PATH or was built by pyenv, and starts."""
    names = [shutil.which(f"python3.{minor}") for minor in range(6, 10)]
    found = {}
    for python in [*filter(None, names), *sorted(Path.home().glob(".pyenv/versions/3.[6-9].*/bin/python"))]:
        done = run_python("-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])", python=python)
        if done.returncode == 0:
            found[done.stdout.strip()] = Path(python)
    return found


def test_a_python_that_is_too_old_is_told_in_one_line() -> None:
    pythons = old_pythons()
    if not pythons:
        pytest.skip("needs a Python from 3.6 to 3.9, on PATH or built by pyenv")
    for version, python in pythons.items():
        done = run_python("-m", "gaudi_shadow", "check", python=python, cwd=CHECKOUT)
        assert (done.returncode, done.stdout) == (64, "")
        assert done.stderr == f"gaudi-shadow needs Python 3.10 or later, this is {version}\n"


def test_what_an_old_python_reads_first_it_can_parse() -> None:
    for file in ("__init__.py", "__main__.py"):
        ast.parse((CHECKOUT / "gaudi_shadow" / file).read_text("utf-8"), feature_version=(3, 6))
