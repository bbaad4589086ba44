"""The commands of this folder as tests: minutes to an hour long, so marked slow; see README.md beside this file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TIMEOUT = 7200
pytestmark = [pytest.mark.slow, pytest.mark.timeout(TIMEOUT)]


def run(command: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / command), *arguments],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode == 2:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_real_engine_dies_stock_and_lives_with_the_hook(tmp_path):
    run("run.py", "--work", str(tmp_path))


def test_the_releases_own_tests_come_out_as_in_stock(tmp_path):
    run("upstream_tests.py", "--work", str(tmp_path))
