"""Other people's sitecustomize beside ours: each runs exactly once and keeps its own errors, and ours is active."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from activation.places import MARKER, path_of, run, run_any
from activation.shared import bare_venv, checkout, piped_venv, target_folder
from conftest import UTILS, clean_environment

NOTE = "import os\nwith open(os.environ['LOG'], 'a') as log:\n    log.write({name!r} + '\\n')\n"
# As ddtrace's does: take the own folder off the path, forget the name, import the next one.
CHAIN = """
import sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
mine = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = mine
"""
BODIES = {
    "plain": "",
    "chains": CHAIN,
    "raises": "raise RuntimeError('of the user')\n",
    "ImportError": "import this_is_not_there\n",
    "exits": "raise SystemExit(5)\n",
    "SyntaxError": "def\n",
    "imports the target": f"import {UTILS}\n",
    "prints": "print('out')\nimport sys\nsys.stderr.write('err')\n",
}
INJECT = pytest.param(lambda: target_folder() / "gaudi_shadow" / "inject", id="inject")
OURS = [pytest.param(checkout, id="checkout"), INJECT]


def write_sitecustomize(folder: Path, name: str, body: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(NOTE.format(name=name) + body, "utf-8")
    return folder


class Start:
    """One start of a Python: what it printed, and which sitecustomize ran, in order."""

    def __init__(self, python: Path, folder: Path, *entries: Path, flags: tuple[str, ...] = ()) -> None:
        log = folder / "log"
        log.write_text("", "utf-8")
        env = clean_environment(LOG=str(log), PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=path_of(*entries))
        done = run_any(python, *flags, "-m", MARKER.stem, env=env, cwd=folder)
        self.ran = log.read_text("utf-8").split()
        self.exit_code, self.stderr = done.returncode, done.stderr
        *self.printed, answer = done.stdout.splitlines() or ["{}"]
        self.answer = json.loads(answer)

    def is_active(self) -> bool:
        """Both targets are patched, by one finder."""
        return bool(all(self.answer["patched"]) and self.answer["finders"] == 1)

    def of_the_user(self) -> tuple[object, ...]:
        """What must not depend on whether we are there; a SystemExit ends with a traceback, whose frames may."""
        stderr = self.stderr.splitlines()[-1:] if self.is_fatal() else self.stderr
        return self.ran, self.exit_code, stderr, self.printed

    def is_fatal(self) -> bool:
        """Python gave up at its start."""
        return self.stderr.startswith("Fatal Python error: init_import_site")


@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize("kind", BODIES)
def test_a_users_one_behind_ours(tmp_path: Path, kind: str, ours: Callable[[], Path]) -> None:
    users = write_sitecustomize(tmp_path / "users", "user", BODIES[kind])
    check_beside_us(
        kind, Start(bare_venv().python, tmp_path, users), Start(bare_venv().python, tmp_path, ours(), users)
    )


@pytest.mark.parametrize("kind", BODIES)
def test_a_users_one_with_the_wheel_installed(tmp_path: Path, kind: str) -> None:
    users = write_sitecustomize(tmp_path / "users", "user", BODIES[kind])
    check_beside_us(kind, *(Start(venv().python, tmp_path, users) for venv in (bare_venv, piped_venv)))


def check_beside_us(kind: str, without: Start, beside: Start) -> None:
    assert beside.of_the_user() == without.of_the_user()
    assert beside.ran == ([] if kind == "SyntaxError" else ["user"])
    if kind == "exits":
        assert beside.is_fatal() and beside.exit_code != 0
    else:
        assert beside.is_active() and not any(without.answer["patched"])


def test_the_traceback_of_a_failure_names_the_users_file(tmp_path: Path) -> None:
    users = write_sitecustomize(tmp_path / "users", "user", BODIES["raises"])
    start = Start(bare_venv().python, tmp_path, checkout(), users, flags=("-v",))
    assert f'File "{users / "sitecustomize.py"}", line 4, in <module>' in start.stderr
    assert "RuntimeError: of the user" in start.stderr


def test_all_routes_at_once_make_one_finder(tmp_path: Path) -> None:
    users = write_sitecustomize(tmp_path / "users", "user")
    inject = piped_venv().site_packages / "gaudi_shadow" / "inject"
    start = Start(piped_venv().python, tmp_path, inject, checkout(), users, inject)
    assert start.ran == ["user"] and start.stderr == ""
    assert start.is_active() and start.answer["route"] == "pth"


def test_two_folders_of_ours_run_the_users_one_once(tmp_path: Path) -> None:
    users = write_sitecustomize(tmp_path / "users", "user")
    start = Start(bare_venv().python, tmp_path, checkout(), target_folder() / "gaudi_shadow" / "inject", users)
    assert start.ran == ["user"] and start.is_active()


def test_before_ours_one_that_runs_the_next_leaves_us_active(tmp_path: Path) -> None:
    first = write_sitecustomize(tmp_path / "first", "first", CHAIN)
    last = write_sitecustomize(tmp_path / "last", "last")
    start = Start(bare_venv().python, tmp_path, first, checkout(), last)
    assert start.ran == ["first", "last"] and start.is_active()


def test_before_ours_one_that_does_not_is_the_end_of_the_pythonpath_route_alone(tmp_path: Path) -> None:
    first = write_sitecustomize(tmp_path / "first", "first")
    start = Start(bare_venv().python, tmp_path, first, checkout())
    assert start.ran == ["first"] and not any(start.answer["patched"])
    env = clean_environment(LOG=str(tmp_path / "log"), PYTHONPATH=path_of(first, checkout()))
    asked = run_any(bare_venv().python, "-m", "gaudi_shadow", "status", env=env, cwd=tmp_path)
    assert f"put {checkout()} first in PYTHONPATH" in asked.stdout
    assert Start(piped_venv().python, tmp_path, first, checkout()).is_active()


def test_a_relative_entry_survives_a_change_of_folder(tmp_path: Path) -> None:
    (tmp_path / "über uns").symlink_to(checkout())
    env = clean_environment(PYTHONPATH="über uns", PYTHONDONTWRITEBYTECODE="1")
    program = "import os; os.chdir('/'); import shadow_marker; shadow_marker.main([])"
    done = run(bare_venv().python, "-c", program, env=env, cwd=tmp_path)
    assert json.loads(done.stdout)["patched"] == [True, True] and done.stderr == ""


def test_a_package_and_a_zip_file_are_found_too(tmp_path: Path) -> None:
    package = write_sitecustomize(tmp_path / "package", "package")
    (package / "sitecustomize").mkdir()
    (package / "sitecustomize.py").rename(package / "sitecustomize" / "__init__.py")
    archive = tmp_path / "users.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sitecustomize.py", NOTE.format(name="zip"))
    for entry, name in ((package, "package"), (archive, "zip")):
        start = Start(bare_venv().python, tmp_path, checkout(), entry)
        assert start.ran == [name] and start.is_active()


@pytest.fixture(scope="module")
def python_with_its_own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This Python with a sitecustomize in its stdlib folder, as Debian and Ubuntu have one."""
    folder = tmp_path_factory.mktemp("distribution")
    stdlib = Path(sysconfig.get_path("stdlib"))
    ours = folder / "lib" / stdlib.name
    ours.mkdir(parents=True)
    for entry in stdlib.iterdir():
        if entry.name not in ("sitecustomize.py", "site-packages", "dist-packages"):
            (ours / entry.name).symlink_to(entry)
    (ours / "sitecustomize.py").write_text(NOTE.format(name="distribution"), "utf-8")
    (folder / "bin").mkdir()
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    python = folder / "bin" / f"python3.{sys.version_info[1]}"
    shutil.copy(base, python)
    shutil.copytree(bare_venv().site_packages, ours / "site-packages")
    (ours / "dist-packages").symlink_to("site-packages")
    return python


def test_the_distributions_own_runs_behind_ours(python_with_its_own: Path, tmp_path: Path) -> None:
    without, behind = Start(python_with_its_own, tmp_path), Start(python_with_its_own, tmp_path, checkout())
    assert without.ran == behind.ran == ["distribution"]
    assert behind.is_active() and not any(without.answer["patched"])


def test_the_distributions_own_stays_hidden_behind_a_users_as_without_us(
    python_with_its_own: Path, tmp_path: Path
) -> None:
    users = write_sitecustomize(tmp_path / "users", "user")
    without = Start(python_with_its_own, tmp_path, users)
    behind = Start(python_with_its_own, tmp_path, checkout(), users)
    assert without.ran == behind.ran == ["user"] and behind.is_active()


def test_the_pth_is_active_beside_the_distributions_own(python_with_its_own: Path, tmp_path: Path) -> None:
    site_packages = python_with_its_own.parent.parent / "lib" / python_with_its_own.name / "site-packages"
    shutil.copytree(piped_venv().site_packages / "gaudi_shadow", site_packages / "gaudi_shadow")
    shutil.copy(piped_venv().site_packages / "gaudi_shadow.pth", site_packages)
    try:
        start = Start(python_with_its_own, tmp_path)
    finally:
        shutil.rmtree(site_packages / "gaudi_shadow")
        (site_packages / "gaudi_shadow.pth").unlink()
    assert start.ran == ["distribution"] and start.is_active() and start.answer["route"] == "pth"


def test_debians_own(tmp_path: Path) -> None:
    python = Path("/usr/bin/python3")
    asked = "import sysconfig, os; print(os.path.join(sysconfig.get_path('stdlib'), 'sitecustomize.py'))"
    own = Path(run(python, "-I", "-c", asked).stdout.strip()) if python.exists() else Path()
    if not own.is_file() or "apport_python_hook" not in own.read_text("utf-8"):
        pytest.skip("needs a Debian or Ubuntu whose python3 has the sitecustomize.py that looks for apport_python_hook")
    folder = write_sitecustomize(tmp_path / "apport", "debian")
    hook = "\ndef install():\n    pass\n"
    (folder / "apport_python_hook.py").write_text(NOTE.format(name="debian") + hook, "utf-8")
    (folder / "sitecustomize.py").unlink()
    without = Start(python, tmp_path, folder, bare_venv().site_packages)
    behind = Start(python, tmp_path, checkout(), folder, bare_venv().site_packages)
    assert without.ran == behind.ran == ["debian"]
    assert behind.is_active() and not any(without.answer["patched"])
