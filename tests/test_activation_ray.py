"""Ray, the real one: two nodes on this machine, started without the user's environment, and an actor on each."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from activation.places import Venv, new_folder, path_of, run
from activation.shared import piped_on, target_folder, venv_from_index
from conftest import CHECKOUT, clean_environment

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "activation"
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}


def diagnosis() -> str:
    """The function that docs/activation.md tells people to run in a worker."""
    page = (CHECKOUT / "docs" / "activation.md").read_text("utf-8")
    (block,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def hook_route" in each]
    return textwrap.dedent(block)


@contextmanager
def cluster_of(venv: Venv) -> Iterator[str]:
    """Two nodes; the address."""
    process = subprocess.Popen(
        [str(venv.python), str(HERE / "ray_cluster.py")],
        env=clean_environment(**QUIET),
        cwd=new_folder(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield next(line.split()[1] for line in process.stdout if line.startswith("address "))
    finally:
        process.communicate(timeout=120)


@pytest.fixture(scope="module")
def bare_cluster() -> Iterator[str]:
    with cluster_of(venv_from_index("ray")) as address:
        yield address


@pytest.fixture(scope="module")
def piped_cluster() -> Iterator[str]:
    with cluster_of(piped_on("ray")) as address:
        yield address


def ask(
    venv: Venv, address: str, *path: Path, runtime_env: dict[str, object] | None = None, **variables: str
) -> list[dict[str, object]]:
    """Start a driver with `path` on PYTHONPATH; an answer from each of the two nodes."""
    asked = {
        "address": address,
        "runtime_env": runtime_env or {},
        "variables": variables,
        "diagnosis": diagnosis(),
    }
    env = clean_environment(**QUIET, **({"PYTHONPATH": path_of(*path)} if path else {}))
    done = run(venv.python, HERE / "ray_driver.py", json.dumps(asked), env=env, cwd=new_folder())
    answers: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    assert len({answer["node"] for answer in answers}) == len(answers) == 2
    return answers


def inject() -> Path:
    return target_folder() / "gaudi_shadow" / "inject"


def test_with_the_wheel_on_the_nodes_both_load_the_patched_modules(piped_cluster: str) -> None:
    for answer in ask(piped_on("ray"), piped_cluster):
        assert answer["patched"] == [True, True] and answer["diagnosis"] == "pth"


def test_pythonpath_through_runtime_env_reaches_both_nodes(bare_cluster: str) -> None:
    runtime_env = {"env_vars": {"PYTHONPATH": str(inject())}}
    for answer in ask(venv_from_index("ray"), bare_cluster, runtime_env=runtime_env):
        assert answer["patched"] == [True, True] and answer["diagnosis"] == "sitecustomize"


def test_pythonpath_in_the_driver_alone_does_not_and_the_diagnosis_says_so(bare_cluster: str) -> None:
    for answer in ask(venv_from_index("ray"), bare_cluster, inject()):
        assert answer["patched"] == [False, False] and answer["diagnosis"] is None


def test_a_fix_that_is_disabled_in_the_driver_is_disabled_on_the_nodes(piped_cluster: str) -> None:
    for answer in ask(piped_on("ray"), piped_cluster, VLLM_GAUDI_SHADOW_DISABLE="mm-merge-idxcopy"):
        assert answer["patched"] == [False, True]


def test_all_switched_off_in_the_driver_is_off_on_the_nodes(piped_cluster: str) -> None:
    for answer in ask(piped_on("ray"), piped_cluster, VLLM_GAUDI_SHADOW="0"):
        assert answer["patched"] == [False, False] and answer["diagnosis"] == "pth"
