"""Shared by all tests: a copy of the package that knows the stand-in releases, and Pythons to run it in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
if str(CHECKOUT) not in sys.path:
    sys.path.insert(0, str(CHECKOUT))

from gaudi_shadow.demo.standin import GROUPING_NAMES, write_release  # noqa: E402
from gaudi_shadow.demo.workshop import adopt, copy_package  # noqa: E402

RUNNER = "vllm_gaudi.v1.worker.hpu_model_runner"
UTILS = "vllm_gaudi.models.utils"


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment without what would change an interpreter's start or our switches."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VLLM_", "GAUDI_", "COVERAGE", "DD_")) and name != "__PYVENV_LAUNCHER__"
    }
    return {**kept, **variables}


def run_python(
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    python: str | Path = sys.executable,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a Python in an environment made of `env` alone (see `clean_environment`), and give what it printed."""
    return subprocess.run(
        [str(python), *map(str, args)],
        env=clean_environment() if env is None else dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True)
class Workshop:
    """A copy of the package that accepts the stand-ins, and one folder with each stand-in release.

    Attributes:
        hook: on PYTHONPATH it activates the copy, as a checkout would.
        trees: release name -> a folder that holds vllm, vllm_gaudi and habana_frameworks.
    """

    hook: Path
    trees: dict[str, Path]

    def environment(self, release: str, *, hooked: bool = True, **variables: str) -> dict[str, str]:
        """An environment with a stand-in on PYTHONPATH, and our copy before it."""
        entries = [*([self.hook] if hooked else []), self.trees[release]]
        return clean_environment(PYTHONPATH=os.pathsep.join(map(str, entries)), **variables)


def make_workshop(folder: Path) -> Workshop:
    """A fresh workshop, for tests that change files in it."""
    hook = copy_package(folder / "hook")
    trees = {release: write_release(folder / f"tree-{release}", release) for release in GROUPING_NAMES}
    for release, tree in trees.items():
        adopt(hook / "gaudi_shadow" / "overlays", release, tree)
    return Workshop(hook, trees)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A workshop that no test may change."""
    return make_workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def own_workshop(tmp_path: Path) -> Workshop:
    """A workshop of the test's own, which it may change."""
    return make_workshop(tmp_path)


@pytest.fixture(scope="session")
def release_root() -> Path:
    """The real release tree in GAUDI_FIXES_ROOT."""
    root = os.environ.get("GAUDI_FIXES_ROOT")
    if not root:
        pytest.skip("needs GAUDI_FIXES_ROOT: the site-packages or the source tree of a vllm-gaudi release")
    assert (Path(root) / "vllm_gaudi").is_dir(), f"GAUDI_FIXES_ROOT={root} holds no vllm_gaudi"
    return Path(root)
