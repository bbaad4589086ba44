"""Run the command line as its console script does, from a given copy of the package."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conftest import Workshop, clean_environment, run_python

BUDGET, MERGE, COVERED = "mm-encoder-budget", "mm-merge-idxcopy", "mm-encoder-covered"
APPLIED = {"v0.26.0": {BUDGET: "applied", MERGE: "applied", COVERED: "not needed"}}
APPLIED["v0.30.0"] = APPLIED["v0.26.0"] | {COVERED: "applied"}
RUNNER_FILE = "vllm_gaudi/v1/worker/hpu_model_runner.py"
UTILS_FILE = "vllm_gaudi/models/utils.py"

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


def checked(hook: Path, *args: str | Path, env: Mapping[str, str], cwd: Path | None = None) -> dict[str, Any]:
    """The report of `check --json`, whose exit code is the command's."""
    return report_of(gaudi_shadow(hook, "check", "--json", *args, env=env, cwd=cwd))


def check(workshop: Workshop, release: str, *args: str | Path, hooked: bool = True, **variables: str) -> dict[str, Any]:
    """The report for a release on PYTHONPATH."""
    return checked(workshop.hook, *args, env=workshop.environment(release, hooked=hooked, **variables))


def change(tree: Path, file: str, old: str, new: str) -> None:
    """Replace one piece of text in a file of a tree."""
    path = tree / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def hidden_sitecustomize(folder: Path, text: str) -> str:
    """A user's sitecustomize; returns its folder for PYTHONPATH."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(text, "utf-8")
    return str(folder)


def on_path(*folders: Path | str, **variables: str) -> dict[str, str]:
    """An environment with these folders on PYTHONPATH."""
    return clean_environment(PYTHONPATH=os.pathsep.join(map(str, folders)), **variables)
