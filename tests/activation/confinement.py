"""Users without rights and mount namespaces, for the tests that need them."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import pytest
from activation.interpreters import supported
from activation.places import Venv, make_venv, new_folder, run, run_any
from conftest import clean_environment

# For use behind `unshare -m sh -c`: no mount is writable any more, whatever the flags of the file systems.
READ_ONLY = (
    "mount --bind / /; for each in $(awk '{print $2}' /proc/mounts); do mount -o remount,bind,ro $each; done 2>&-"
)


def as_user(number: int) -> tuple[str, ...]:
    """The words before a command line that make it run as a user and group without rights.

    The shell is there so that setpriv's own rights are gone when the command is looked up.
    """
    become = (f"--reuid={number}", f"--regid={number}", "--clear-groups", "--no-new-privs")
    return ("setpriv", *become, "sh", "-c", 'exec "$0" "$@"')


def need_namespaces() -> None:
    """Skip where a test cannot have mounts of its own."""
    if os.getuid() != 0 or run_any("unshare", "-m", "true").returncode != 0:
        pytest.skip("needs root and a kernel that lets it make a mount namespace (unshare -m)")


def need_other_users() -> None:
    """Skip where a test cannot become another user."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv (util-linux) to become another user")


@functools.cache
def python_for_everyone() -> Path:
    """A supported Python that a user without rights may run."""
    asked = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    for version, python in supported().items():
        done = run_any(*as_user(65534), python, "-c", asked, env=clean_environment(), cwd=Path("/"))
        if (done.returncode, done.stdout.strip()) == (0, version):
            return python
    pytest.skip("needs a Python of 3.10 or later outside of root's home, such as Debian's")


def venv_for_everyone(filled: Venv) -> Venv:
    """A venv of `python_for_everyone` with the libraries of another one."""
    venv = make_venv(new_folder() / "venv", python_for_everyone())
    shutil.copytree(filled.site_packages, venv.site_packages, dirs_exist_ok=True)
    let_others_read(venv.folder)
    return venv


def let_others_read(folder: Path) -> None:
    """As an installation has it; temporary folders are made for their owner alone."""
    run("chmod", "-R", "a+rX", folder)
    folder.parent.chmod(0o755)
