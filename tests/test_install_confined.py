"""A read-only root file system, a user without rights, no home, no temporary folder: what containers run with."""

from __future__ import annotations

import functools
import json
import os
import shutil
from pathlib import Path

import pytest
from activation.interpreters import supported
from activation.places import bare_venv, checkout, make_venv, new_folder, piped_venv, run, run_any, target_folder
from conftest import clean_environment

# The shell is there so that setpriv's own rights are gone when the Python is looked up.
AS_NOBODY = (
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--no-new-privs",
    "sh",
    "-c",
    'exec "$0" "$@"',
)
ROUTES = {
    "pip": lambda: (piped_venv().python, None),
    "checkout": lambda: (bare_venv().python, checkout()),
    "inject": lambda: (bare_venv().python, target_folder() / "gaudi_shadow" / "inject"),
}
WRITES = "import os\ntry:\n    open({!r}, 'w')\nexcept OSError as error:\n    print(error.strerror)\n"


def needs_namespaces() -> None:
    if os.getuid() != 0 or run_any("unshare", "-m", "true").returncode != 0:
        pytest.skip("needs root and a kernel that lets it make a mount namespace (unshare -m)")


def environment(path: Path | None) -> dict[str, str]:
    return clean_environment(HOME="/nonexistent", **({"PYTHONPATH": str(path)} if path else {}))


def check(stdout: str, refusal: str) -> None:
    wrote, answer = stdout.splitlines()
    assert wrote == refusal
    found = json.loads(answer)
    assert found["patched"] == [True, True] and found["finders"] == 1


@pytest.mark.parametrize("route", ROUTES)
def test_on_a_root_file_system_that_is_read_only(route: str) -> None:
    """Every mount is read-only, /tmp with it; the compiled files are not there yet and cannot be written."""
    needs_namespaces()
    python, path = ROUTES[route]()
    for folder in (python.parent.parent, *([path] if path else [])):
        for cache in folder.rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)
    program = WRITES.format(str(new_folder() / "file")) + "import shadow_marker\nshadow_marker.main([])\n"
    read_only = "for each in $(awk '{print $2}' /proc/mounts); do mount -o remount,bind,ro $each 2>/dev/null; done"
    command = f'mount --bind / / ; {read_only}; cd /; exec "$0" -c "$1"'
    done = run("unshare", "-m", "sh", "-c", command, python, program, env=environment(path))
    assert done.stderr == ""
    check(done.stdout, "Read-only file system")


@functools.cache
def python_for_everyone() -> Path:
    """A supported Python that a user without rights may run."""
    asked = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    for version, python in supported().items():
        done = run_any(*AS_NOBODY, python, "-c", asked, env=environment(None), cwd=Path("/"))
        if (done.returncode, done.stdout.strip()) == (0, version):
            return python
    pytest.skip("needs a Python of 3.10 or later outside of root's home, such as Debian's")


@pytest.mark.parametrize("route", ROUTES)
def test_as_a_user_that_may_write_nothing(route: str) -> None:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv (util-linux) to become another user")
    _, path = ROUTES[route]()
    venv = make_venv(new_folder() / "venv", python_for_everyone())
    shutil.copytree(
        (piped_venv() if path is None else bare_venv()).site_packages, venv.site_packages, dirs_exist_ok=True
    )
    _let_others_read(venv.folder)
    if path is not None:
        _let_others_read(path.parent.parent if route == "inject" else path)
    program = WRITES.format(str(venv.folder / "file")) + "import shadow_marker\nshadow_marker.main([])\n"
    done = run(*AS_NOBODY, venv.python, "-c", program, env=environment(path), cwd=Path("/"))
    assert done.stderr == ""
    check(done.stdout, "Permission denied")


def _let_others_read(folder: Path) -> None:
    run("chmod", "-R", "a+rX", folder)
    folder.parent.chmod(0o755)
