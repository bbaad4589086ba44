"""Wheels, virtual environments and folders for the activation tests: how they are made.

The Pythons here have a stand-in release, a one-line `torch` and `packaging` in their site-packages, so that a target
can be imported there without anything from a package index.
"""

from __future__ import annotations

import ast
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import packaging
from conftest import CHECKOUT, clean_environment

from gaudi_shadow.demo.standin import write_release
from gaudi_shadow.demo.workshop import adopt

RELEASE = "v0.30.0"
MARKER = Path(__file__).with_name("shadow_marker.py")
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "sitecustomize.py", "gaudi_shadow", "overlays")


def run(
    *args: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed, in an environment made of `env` alone (see `clean_environment`)."""
    done = run_any(*args, env=env, cwd=cwd, timeout=timeout)
    assert done.returncode == 0, f"{args} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def run_any(
    *args: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """As `run`, whatever the exit code."""
    return subprocess.run(
        [*map(str, args)],
        env=clean_environment(PYTHONDONTWRITEBYTECODE="1") if env is None else dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def copy_checkout(folder: Path) -> Path:
    """Copy what a wheel is built from."""
    folder.mkdir(parents=True)
    for name in BUILT_FROM:
        path = CHECKOUT / name
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(path, folder / name)
    return folder


def build_wheel(folder: Path, version: str | None = None) -> Path:
    """Build a wheel from a copy of the checkout.

    Args:
        folder: made for the copy and the wheel.
        version: what the copy calls itself; as the checkout when None.
    """
    source = copy_checkout(folder / "source")
    if version is not None:
        init = source / "gaudi_shadow" / "__init__.py"
        lines = init.read_text("utf-8").splitlines()
        changed = [f'__version__ = "{version}"' if line.startswith("__version__") else line for line in lines]
        assert changed != lines
        init.write_text("\n".join(changed) + "\n", "utf-8")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return next(folder.glob("*.whl"))


@dataclass(frozen=True)
class Venv:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Its site-packages."""
        return next((self.folder / "lib").glob("python3.*")) / "site-packages"

    def pip(self, *args: str | Path, **variables: str) -> None:
        """Run the test environment's pip for it, without a package index."""
        pip(self.python, *args, **variables)


def pip(python: str | Path, *args: str | Path, **variables: str) -> None:
    """Run the test environment's pip for a Python, without a package index."""
    quiet = ("--disable-pip-version-check", "--no-input")
    env = clean_environment(PIP_NO_INDEX="1", PIP_NO_CACHE_DIR="1", **variables)
    run(sys.executable, "-m", "pip", "--python", python, *quiet, *args, env=env)


def make_venv(folder: Path, python: str | Path = sys.executable) -> Venv:
    """A virtual environment that has nothing."""
    run(python, "-m", "venv", "--without-pip", folder)
    return Venv(folder)


def write_stack(folder: Path, *, release: bool = True) -> Path:
    """Write into a site-packages what a patched stand-in needs: torch's name, packaging and, where asked, itself."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "torch.py").write_text("class Tensor:\n    pass\n", "utf-8")
    shutil.copytree(Path(packaging.__file__).parent, folder / "packaging", dirs_exist_ok=True)
    if release:
        write_release(folder, RELEASE)
        # Ray counts the cards of any habana_frameworks that it finds.
        no_card = "def is_available():\n    return False\n"
        (folder / "habana_frameworks" / "torch" / "hpu.py").write_text(no_card, "utf-8")
    shutil.copy(MARKER, folder)
    return folder


def adopt_stand_in(package: Path, tree: Path) -> None:
    """Let an installed copy of gaudi_shadow accept the stand-in in `tree`."""
    adopt(package / "overlays", RELEASE, tree)


def change_function(path: Path, name: str) -> None:
    """Change one function of a stand-in's file by a statement that does nothing: its source has drifted then."""
    lines = path.read_text("utf-8").splitlines()
    (found,) = [
        node
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    last = found.body[-1]
    lines.insert(last.lineno - 1, " " * last.col_offset + "pass")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def new_folder() -> Path:
    """An empty folder that lives as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="gaudi-shadow-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder.resolve()


def path_of(*entries: str | Path) -> str:
    """A value for PYTHONPATH."""
    return os.pathsep.join(map(str, entries))


def files_below(folder: Path, without: Iterable[str] = ()) -> set[str]:
    """Every file and link below a folder, compiled ones left out."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    return {name for name in found if "__pycache__" not in name and not name.startswith(tuple(without))}
