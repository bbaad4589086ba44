"""An upgrade and an uninstall below a process that runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from activation.places import Venv, adopt_stand_in, build_wheel, make_venv, run, write_stack
from activation.shared import install_wheel
from conftest import RUNNER, UTILS, clean_environment

pytestmark = pytest.mark.slow

PROGRAM = f"""
import sys

def say(*names):
    import importlib
    for name in names:
        module = importlib.import_module(name)
        owner = getattr(module, "HPUModelRunner", module)
        function = getattr(owner, "_execute_mm_encoder", None) or owner._merge_multimodal_embeddings
        print(name, "overlays" in function.__code__.co_filename, flush=True)

say(*sys.argv[1:])
print("ready", flush=True)
sys.stdin.readline()
say({UTILS!r}, {RUNNER!r})
"""


class Running:
    """A process that waits between its start, with or without a first target, and its imports."""

    def __init__(self, venv: Venv, program: Path, *first: str) -> None:
        program.write_text(PROGRAM, "utf-8")
        self.process = subprocess.Popen(
            [str(venv.python), str(program), *first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "ready\n":
                break

    def go_on(self) -> tuple[dict[str, bool], list[str]]:
        """What was patched, and the lines on stderr."""
        stdout, stderr = self.process.communicate("go\n", timeout=60)
        assert self.process.returncode == 0, stderr
        pairs = (line.split() for line in stdout.splitlines())
        return {name: flag == "True" for name, flag in pairs}, stderr.splitlines()


@pytest.fixture
def older(tmp_path: Path) -> Venv:
    """A venv with an older version of ours."""
    venv = make_venv(tmp_path / "venv")
    write_stack(venv.site_packages)
    venv.pip("install", "--no-deps", build_wheel(tmp_path / "older", "0.0.9"))
    adopt_stand_in(venv.site_packages / "gaudi_shadow", venv.site_packages)
    return venv


@pytest.mark.parametrize("first", [[], [UTILS]], ids=["before any import", "between two imports"])
def test_an_upgrade_below_a_running_process(older: Venv, tmp_path: Path, first: list[str]) -> None:
    running = Running(older, tmp_path / "program.py", *first)
    install_wheel(older)
    assert running.go_on() == ({UTILS: True, RUNNER: True}, [])
    shown = run(older.python, "-c", "import gaudi_shadow; print(gaudi_shadow.__version__)").stdout.strip()
    assert shown != "0.0.9"
    assert len(list(older.site_packages.glob("gaudi_shadow*.dist-info"))) == 1


@pytest.mark.parametrize("first", [[], [UTILS]], ids=["before any import", "between two imports"])
def test_an_uninstall_below_a_running_process_leaves_it_stock_with_a_line(
    older: Venv, tmp_path: Path, first: list[str]
) -> None:
    running = Running(older, tmp_path / "program.py", *first)
    older.pip("uninstall", "-y", "gaudi-shadow")
    patched, lines = running.go_on()
    assert patched == {UTILS: bool(first), RUNNER: False}
    assert len(lines) == (1 if first else 2) and all(line.startswith("gaudi-shadow: ") for line in lines)
    assert f"{RUNNER} " in lines[-1] and "reinstall gaudi-shadow" in lines[-1]
