"""The environments that an engine runs in: stock, with the hook by PYTHONPATH, and with the installed wheel alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import release_tree

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
LOG_PREFIX = "pid=%(process)d %(processName)s "  # part of vLLM's format string, so that each line names its process


class Missing(Exception):
    """Something that the run needs is not there; the message says what, and where it comes from."""


@dataclass(frozen=True)
class Setup:
    """What one run works with.

    Attributes:
        python: an interpreter that has vLLM, transformers and torch.
        vllm_version: of the vLLM in it, "0.26.0" or "0.30.0".
        tree: the prepared copy of the release.
        work: folder for models, caches, logs and results.
    """

    python: Path
    vllm_version: str
    tree: Path
    work: Path

    @property
    def strips_covered_data(self) -> bool:
        """Whether this vLLM strips the data of features that the prefix cache covers, as 0.30.0 does."""
        return not self.vllm_version.startswith("0.26.")

    def interpreter(self, route: str) -> Path:
        """The Python for a route; the first call for "wheel" builds the wheel and makes its venv."""
        return self.python if route != "wheel" else _wheel_venv(self) / "bin" / "python"

    def environ(self, route: str, **variables: str) -> dict[str, str]:
        """The environment for a route: the stand-in and the release on PYTHONPATH, and the checkout before them."""
        dropped = ("PYTHON", "VLLM_", "GAUDI_", "HPU_", "PT_HPU")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        entries = [*([CHECKOUT] if route == "PYTHONPATH" else []), HERE / "standin", self.tree]
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(map(str, entries)),
            "VLLM_USE_FAKE_HPU": "1",
            "VLLM_SKIP_WARMUP": "true",
            "VLLM_PROMPT_USE_FUSEDSDPA": "true",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CACHE_ROOT": str(self.work / "vllm-cache"),
            "VLLM_LOGGING_LEVEL": "INFO",
            "VLLM_LOGGING_PREFIX": LOG_PREFIX,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
            **variables,
        }


def _output(*command: str | Path, **options: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command))} failed: {(done.stderr.strip() or '?').splitlines()[-1]}")
    return str(done.stdout)


def _site_packages(python: Path) -> Path:
    return Path(_output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def _wheel_venv(setup: Setup) -> Path:
    folder = setup.work / "wheel-venv"
    if folder.exists():
        return folder
    wheels = setup.work / "wheel"
    _output(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels, cwd=CHECKOUT)
    (wheel,) = wheels.glob("*.whl")
    _output(setup.python, "-m", "venv", "--without-pip", folder)
    # Python reads no .pth inside of a folder that a .pth names: our wheel's is the only one of ours that is read.
    python = folder / "bin" / "python"
    (_site_packages(python) / "libraries.pth").write_text(f"{_site_packages(setup.python)}\n", "utf-8")
    _output(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    return folder


def find(root: str | None, python: str | None, work: Path) -> Setup:
    """Check what was given and prepare the release.

    Raises:
        Missing: something is not there.
    """
    if not root:
        raise Missing("no release: set GAUDI_FIXES_ROOT or give --root, the source tree of a vllm-gaudi release")
    for name in (release_tree.RUNNER, "setup.py"):
        if not (Path(root) / name).is_file():
            raise Missing(f"{root} holds no {name}: a source tree of a vllm-gaudi release is needed")
    if not python or not Path(python).is_file():
        raise Missing(
            f"no Python with vLLM ({python or 'nothing given'}): set GAUDI_REAL_PYTHON or give --python, "
            "the interpreter of a venv as tests/real/environment/make_env.sh makes it"
        )
    ask = "import importlib.metadata as m; print(m.version('vllm'))"
    version = _output(python, "-c", ask).strip().partition("+")[0]
    for needed in ("vllm", "torch", "transformers"):
        found = _output(python, "-c", f"import importlib.util as u; print(u.find_spec({needed!r}) is not None)")
        if found.strip() != "True":
            raise Missing(f"{python} has no {needed}: make its venv with tests/real/environment/make_env.sh")
    work.mkdir(parents=True, exist_ok=True)
    tree = release_tree.prepare(Path(root), version, work / "tree")
    return Setup(Path(python), version, tree, work)
