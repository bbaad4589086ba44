"""Shared by all tests: a copy of the package that knows the stand-in releases, and Pythons to run it in."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job ignores it, and children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An installed copy of ours is active in pytest's own process by then; the tests are of this checkout.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "gaudi_shadow.finder"]
for loaded in [name for name in sys.modules if name.partition(".")[0] == "gaudi_shadow"]:
    del sys.modules[loaded]
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


@functools.cache
def bare_python() -> Path:
    """A Python with this one's libraries in which none of our routes is active, whether we are installed or not.

    It is a venv that names this interpreter's library folders in a `.pth`: Python reads no `.pth` inside of those.
    """
    folder = Path(tempfile.mkdtemp(prefix="gaudi-shadow-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, symlinks=True, with_pip=False)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    libraries = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    (site_packages / "libraries.pth").write_text("\n".join(libraries) + "\n", "utf-8")
    return folder / "bin" / "python"


def run_python(
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    python: str | Path | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a Python (`bare_python`) in an environment of `env` alone (`clean_environment`); give what it printed."""
    return subprocess.run(
        [str(python or bare_python()), *map(str, args)],
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


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package as it is, which knows the real functions only; on PYTHONPATH it activates itself."""
    return copy_package(tmp_path_factory.mktemp("shipped") / "hook")


@pytest.fixture
def own_workshop(tmp_path: Path) -> Workshop:
    """A workshop of the test's own, which it may change."""
    return make_workshop(tmp_path)


@pytest.fixture
def light(tmp_path: Path) -> Workshop:
    """A workshop of the test's own whose releases import in milliseconds."""
    from adversity.light import make_light

    return make_light(tmp_path / "light")


@pytest.fixture(scope="session")
def release_root() -> Path:
    """The real release tree in GAUDI_FIXES_ROOT."""
    root = os.environ.get("GAUDI_FIXES_ROOT")
    if not root:
        pytest.skip("needs GAUDI_FIXES_ROOT: the site-packages or the source tree of a vllm-gaudi release")
    assert (Path(root) / "vllm_gaudi").is_dir(), f"GAUDI_FIXES_ROOT={root} holds no vllm_gaudi"
    return Path(root)
