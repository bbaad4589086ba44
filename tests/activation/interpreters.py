"""The Pythons of this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("python2.7", "python3", *(f"python3.{minor}" for minor in range(6, 16)))
FOLDERS = ("/usr/bin", "/usr/local/bin")
OLDEST_SUPPORTED = (3, 10)


@functools.cache
def interpreters() -> dict[str, Path]:
    """Version -> executable: this one, pyenv's, and what the usual folders hold; one for each version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*sorted(pyenv.glob("versions/*/bin/python")), *(Path(each, name) for each in FOLDERS for name in NAMES)]
    found += [Path(path) for path in map(shutil.which, NAMES) if path is not None and "shims" not in path]
    base = Path(getattr(sys, "_base_executable", sys.executable))  # in this one's venv we may be installed
    versions = {version_of(base): base}
    for path in found:
        if path.exists():
            versions.setdefault(version_of(path), path)
    return versions


@functools.cache
def version_of(python: Path) -> str:
    """Such as "3.11.7"."""
    asked = "import sys; sys.stdout.write('.'.join(map(str, sys.version_info[:3])))"
    return subprocess.run([str(python), "-E", "-c", asked], capture_output=True, text=True, check=True).stdout


def supported() -> dict[str, Path]:
    """Those that our hook works in."""
    return {
        version: path
        for version, path in interpreters().items()
        if tuple(map(int, version.split(".")[:2])) >= OLDEST_SUPPORTED
    }
