"""Run the command line as its console script does, from a given copy of the package."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conftest import run_python

SCRIPT = "import sys; sys.path.insert(0, {folder!r}); from gaudi_shadow.cli import main; sys.exit(main())\n"


def script_for(hook: Path) -> Path:
    """A script like the one that pip writes: its own folder is sys.path[0], and the current one is not on sys.path."""
    script = hook.parent / "bin" / f"gaudi-shadow-of-{hook.name}"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT.format(folder=str(hook)))
    return script


def gaudi_shadow(
    hook: Path, *args: str | Path, env: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One command; `hook` is a folder that holds the package, on PYTHONPATH or not."""
    return run_python(script_for(hook), *args, env=env, cwd=cwd or hook.parent)


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON report of a command that was run with --json and wrote nothing else; its exit code is the report's."""
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return report


def fixes_in(report: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The entries by the fix's name."""
    return {entry["fix"]: entry for entry in report["fixes"]}


def states_in(report: Mapping[str, Any]) -> dict[str, str]:
    """Each fix's state."""
    return {name: entry["state"] for name, entry in fixes_in(report).items()}
