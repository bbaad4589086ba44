"""Our own wheel: installed, copied, left behind, removed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from activation.places import (
    adopt_stand_in,
    build_wheel,
    files_below,
    make_venv,
    new_folder,
    pip,
    run,
    run_any,
    write_stack,
)
from activation.shared import bare_venv, copy_of_piped, target_folder, wheel
from conftest import clean_environment

MARKER = ("-m", "shadow_marker")
BASE_PYTHON = Path(getattr(sys, "_base_executable", sys.executable))


def is_active(python: Path, *flags: str, **variables: str) -> bool:
    answer = json.loads(run(python, *flags, *MARKER, env=clean_environment(**variables), cwd=new_folder()).stdout)
    assert answer["finders"] == int(all(answer["patched"])) == int(any(answer["patched"]))
    return bool(answer["finders"])


def quiet(python: Path, *flags: str, **variables: str) -> None:
    """`print(1)` prints that and nothing else."""
    done = run_any(python, *flags, "-c", "print(1)", env=clean_environment(**variables), cwd=new_folder())
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)


def test_the_wheel_puts_nothing_of_a_common_name_into_site_packages() -> None:
    with zipfile.ZipFile(wheel()) as file:
        roots = {name.split("/")[0] for name in file.namelist()}
    (info,) = [name for name in roots if name.endswith(".dist-info")]
    assert roots == {"gaudi_shadow", "gaudi_shadow.pth", "gaudi_shadow.start", info}


def test_pip_install_activates_and_uninstall_leaves_no_file(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    write_stack(venv.site_packages)
    before = files_below(venv.folder)
    venv.pip("install", "--no-deps", wheel())
    adopt_stand_in(venv.site_packages / "gaudi_shadow", venv.site_packages)
    assert is_active(venv.python)
    venv.pip("uninstall", "-y", "gaudi-shadow")
    assert files_below(venv.folder) == before
    assert not (venv.site_packages / "gaudi_shadow").exists()
    assert not is_active(venv.python)
    quiet(venv.python)


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "a file of the user's"])
def test_a_pth_that_is_left_behind_is_silent(tmp_path: Path, left: str) -> None:
    venv = copy_of_piped(tmp_path / "venv")
    package = venv.site_packages / "gaudi_shadow"
    shutil.rmtree(package)
    if left != "nothing":
        package.mkdir()
    if left == "a file of the user's":
        (package / "notes.py").write_text("", "utf-8")
    quiet(venv.python)
    assert not is_active(venv.python)


def test_a_sitecustomize_that_is_left_behind_is_silent(tmp_path: Path) -> None:
    shutil.copytree(target_folder() / "gaudi_shadow" / "inject", tmp_path / "inject")
    quiet(bare_venv().python, PYTHONPATH=str(tmp_path / "inject"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_text("", "utf-8"),
    "cut": lambda path: path.write_text(path.read_text("utf-8")[:900] + "\n(", "utf-8"),
    "of a version without install": lambda path: path.write_text("ShadowFinder = None\n", "utf-8"),
    "another program's": lambda path: path.write_text("raise RuntimeError('not ours')\n", "utf-8"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("route", ["pth", "sitecustomize"])
def test_a_finder_that_cannot_be_used_is_said_in_one_line(tmp_path: Path, route: str, damage: str) -> None:
    """A venv executes the line of a .pth twice; Python starts all the same."""
    venv = copy_of_piped(tmp_path / "venv")
    variables = {}
    if route == "sitecustomize":
        (venv.site_packages / "gaudi_shadow.pth").unlink()
        variables["PYTHONPATH"] = str(venv.site_packages / "gaudi_shadow" / "inject")
    DAMAGES[damage](venv.site_packages / "gaudi_shadow" / "finder.py")
    shutil.rmtree(venv.site_packages / "gaudi_shadow" / "__pycache__", ignore_errors=True)
    done = run_any(venv.python, "-c", "import sys; print(1); sys.exit(3)", env=clean_environment(**variables))
    (line,) = done.stderr.splitlines()
    assert line.startswith("gaudi-shadow: not active: ") and line.endswith("; reinstall gaudi-shadow")
    assert (done.returncode, done.stdout) == (3, "1\n")


def test_a_part_of_ours_that_somebody_imports_first_does_not_keep_the_hook_out(tmp_path: Path) -> None:
    venv = copy_of_piped(tmp_path / "venv")
    (venv.site_packages / "aaa.pth").write_text("import gaudi_shadow.finder\n", "utf-8")
    assert is_active(venv.python)


def test_a_venv_that_is_copied_or_moved_stays_active(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    copy_of_piped(first)
    shutil.copytree(first, second, symlinks=True)
    shutil.rmtree(first)
    assert is_active(second / "bin" / "python")
    second.rename(third)
    assert is_active(third / "bin" / "python")


def test_a_target_folder_on_pythonpath_is_not_enough_for_a_pth() -> None:
    assert not is_active(bare_venv().python, PYTHONPATH=str(target_folder()))
    assert is_active(bare_venv().python, PYTHONPATH=str(target_folder() / "gaudi_shadow" / "inject"))


@pytest.mark.slow
def test_pip_install_user(tmp_path: Path) -> None:
    check_user_install(BASE_PYTHON, tmp_path)


@pytest.mark.slow
def test_pip_install_user_of_debians_python(tmp_path: Path) -> None:
    check_user_install(debians_python(), tmp_path, "--break-system-packages")


def debians_python() -> Path:
    python = Path("/usr/bin/python3")
    if not python.exists() or not Path("/etc/debian_version").exists():
        pytest.skip("needs the python3 package of a Debian or Ubuntu in /usr/bin")
    return python


def check_user_install(python: Path, folder: Path, *options: str) -> None:
    base = {"PYTHONUSERBASE": str(folder / "base")}
    asked = run(python, "-c", "import site; print(site.getusersitepackages())", env=clean_environment(**base))
    site_packages = Path(asked.stdout.strip())
    write_stack(site_packages)
    before = files_below(folder)
    pip(python, "install", "--user", *options, "--no-deps", "--ignore-installed", wheel(), **base)
    adopt_stand_in(site_packages / "gaudi_shadow", site_packages)
    assert is_active(python, **base)
    quiet(python, "-s", **base)
    pip(python, "uninstall", "-y", *options, "gaudi-shadow", **base)
    assert files_below(folder) == before
    assert not is_active(python, **base)


@pytest.mark.slow
def test_pip_install_into_debians_own_site(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that the machine's Python stays as it is."""
    python = debians_python()
    if os.getuid() != 0 or run_any("unshare", "-m", "true").returncode != 0:
        pytest.skip("needs root and a kernel that lets it make a mount namespace (unshare -m)")
    asked = "import sysconfig; print(sysconfig.get_path('purelib', 'posix_local'))"
    site = run(python, "-c", asked).stdout.strip()
    write_stack(tmp_path / "stack")
    command = f"""
set -e
mount -t tmpfs none {site}
cp -r {tmp_path}/stack/. {site}
find {site} -type f -not -name '*.pyc' | sort > {tmp_path}/before
{sys.executable} -m pip --python {python} install -q --break-system-packages --no-index --no-deps {wheel()}
cp {target_folder()}/gaudi_shadow/overlays/v0.30.0/manifest.json {site}/gaudi_shadow/overlays/v0.30.0/
cd {tmp_path}
{python} -m shadow_marker
{python} -I -m shadow_marker
{python} -c 'print(1)'
{sys.executable} -m pip --python {python} uninstall -q -y --break-system-packages gaudi-shadow
find {site} -type f -not -name '*.pyc' | sort > {tmp_path}/after
test ! -e {site}/gaudi_shadow
"""
    env = clean_environment(PYTHONDONTWRITEBYTECODE="1", PIP_NO_CACHE_DIR="1", PIP_ROOT_USER_ACTION="ignore")
    done = run("unshare", "-m", "sh", "-c", command, env=env)
    *answers, one = done.stdout.splitlines()
    assert [json.loads(answer)["patched"] for answer in answers] == [[True, True]] * 2 and one == "1"
    assert (tmp_path / "before").read_text("utf-8") == (tmp_path / "after").read_text("utf-8") != ""


@pytest.mark.slow
def test_uv_installs_upgrades_and_removes(tmp_path: Path) -> None:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv on PATH")
    venv = make_venv(tmp_path / "venv")
    write_stack(venv.site_packages)
    before = files_below(venv.folder)

    def do(*args: str | Path) -> None:
        env = clean_environment(UV_CACHE_DIR=str(tmp_path / "cache"), UV_OFFLINE="1")
        run(uv, "pip", *args, "--python", venv.python, env=env)

    for each in (build_wheel(tmp_path / "old", "0.0.9"), wheel()):
        do("install", "--no-deps", each)
        adopt_stand_in(venv.site_packages / "gaudi_shadow", venv.site_packages)
        assert is_active(venv.python)
    asked = "import gaudi_shadow; print(gaudi_shadow.__version__)"
    assert run(venv.python, "-c", asked).stdout.strip() != "0.0.9"
    do("uninstall", "gaudi-shadow")
    assert files_below(venv.folder, without=[".lock"]) == before  # uv's own lock on the venv
    assert not is_active(venv.python)
