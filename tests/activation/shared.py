"""The wheel, the virtual environments and the folders that several activation tests use; each is made once."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path

import pytest
from activation.places import (
    Venv,
    adopt_stand_in,
    build_wheel,
    make_venv,
    new_folder,
    run_any,
    write_stack,
)
from conftest import clean_environment

from gaudi_shadow.demo.workshop import copy_package


@functools.cache
def wheel() -> Path:
    """The wheel of this checkout."""
    return build_wheel(new_folder())


@functools.cache
def bare_venv() -> Venv:
    """A venv with the stand-in release and without us; no test may change it."""
    venv = make_venv(new_folder() / "bare")
    write_stack(venv.site_packages)
    return venv


@functools.cache
def piped_venv() -> Venv:
    """A venv with the stand-in release and our wheel; no test may change it."""
    venv = make_venv(new_folder() / "piped")
    write_stack(venv.site_packages)
    install_wheel(venv)
    return venv


def install_wheel(venv: Venv) -> None:
    """Install our wheel beside a stand-in release."""
    venv.pip("install", "--no-deps", wheel())
    adopt_stand_in(venv.site_packages / "gaudi_shadow", venv.site_packages)


def copy_of_piped(folder: Path) -> Venv:
    """A venv as `piped_venv`, which the test may change."""
    venv = make_venv(folder)
    shutil.copytree(piped_venv().site_packages, venv.site_packages, dirs_exist_ok=True)
    return venv


@functools.cache
def venv_from_index(extra: str) -> Venv:
    """A venv as `bare_venv`, with what an extra of ours names; no test may change it."""
    venv = make_venv(new_folder() / extra)
    write_stack(venv.site_packages)
    wanted = f"{wheel()}[{extra}]"
    pip_install = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", venv.python, "install", "-q")
    done = run_any(*pip_install, wanted, env=clean_environment(), timeout=900)
    if done.returncode:
        pytest.skip(f"needs a package index that has what gaudi-shadow[{extra}] names: {done.stderr.splitlines()[-1:]}")
    venv.pip("uninstall", "-y", "gaudi-shadow")
    return venv


@functools.cache
def piped_on(extra: str) -> Venv:
    """A venv with our wheel, and with the libraries and `.pth` files of `venv_from_index`; no test may change it."""
    base, venv = venv_from_index(extra), make_venv(new_folder() / f"{extra}-piped")
    (venv.site_packages / "libraries.pth").write_text(f"{base.site_packages}\n", "utf-8")
    for pth in base.site_packages.glob("*.pth"):
        shutil.copy(pth, venv.site_packages)
    venv.pip("install", "--no-deps", wheel())
    adopt_stand_in(venv.site_packages / "gaudi_shadow", base.site_packages)
    return venv


@functools.cache
def checkout() -> Path:
    """A copy of the checkout that knows the stand-in; on PYTHONPATH it activates the hook. No test may change it."""
    folder = copy_package(new_folder() / "checkout")
    adopt_stand_in(folder / "gaudi_shadow", bare_venv().site_packages)
    return folder


@functools.cache
def target_folder() -> Path:
    """A folder that `pip install --target` has filled with our wheel; no test may change it."""
    folder = new_folder() / "target"
    bare_venv().pip("install", "--no-deps", "--target", folder, wheel())
    adopt_stand_in(folder / "gaudi_shadow", bare_venv().site_packages)
    return folder
