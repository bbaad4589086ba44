"""A read-only root file system, and a user without rights or a home: what containers run with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from activation.confinement import (
    READ_ONLY,
    as_user,
    let_others_read,
    need_namespaces,
    need_other_users,
    venv_for_everyone,
)
from activation.places import new_folder, run
from activation.shared import bare_venv, checkout, piped_venv, target_folder
from conftest import clean_environment

ROUTES = {
    "pip": (piped_venv, None),
    "checkout": (bare_venv, checkout),
    "inject": (bare_venv, target_folder),
}
TRIES_TO_WRITE = "try:\n    open({!r}, 'w')\nexcept OSError as error:\n    print(error.strerror)\n"
IMPORTS = "import shadow_marker\nshadow_marker.main([])\n"


def environment(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return clean_environment(HOME="/nonexistent")
    inject = folder / "gaudi_shadow" / "inject"
    entry = inject if (inject / "sitecustomize.py").exists() else folder
    return clean_environment(HOME="/nonexistent", PYTHONPATH=str(entry))


def check(stdout: str, refusal: str) -> None:
    wrote, answer = stdout.splitlines()
    assert wrote == refusal
    found = json.loads(answer)
    assert found["patched"] == [True, True] and found["finders"] == 1


@pytest.mark.parametrize("route", ROUTES)
def test_on_a_root_file_system_that_is_read_only(route: str) -> None:
    """Nothing is writable, /tmp neither, and the compiled files are not there yet."""
    need_namespaces()
    venv, folder = ROUTES[route][0](), ROUTES[route][1] and ROUTES[route][1]()
    for place in filter(None, (venv.folder, folder)):
        for cache in place.rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)
    program = TRIES_TO_WRITE.format(str(new_folder() / "file")) + IMPORTS
    command = f'{READ_ONLY}; cd /; exec "$0" -c "$1"'
    done = run("unshare", "-m", "sh", "-c", command, venv.python, program, env=environment(folder))
    assert done.stderr == ""
    check(done.stdout, "Read-only file system")


@pytest.mark.parametrize("route", ROUTES)
def test_as_a_user_that_may_write_nothing(route: str) -> None:
    need_other_users()
    filled, folder = ROUTES[route][0](), ROUTES[route][1] and ROUTES[route][1]()
    venv = venv_for_everyone(filled)
    if folder is not None:
        let_others_read(folder)
    program = TRIES_TO_WRITE.format(str(venv.folder / "file")) + IMPORTS
    done = run(*as_user(65534), venv.python, "-c", program, env=environment(folder), cwd=Path("/"))
    assert done.stderr == ""
    check(done.stdout, "Permission denied")
