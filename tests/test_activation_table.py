"""docs/activation.md says which process has the hook on which route, and what to do where it has not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from activation.measure_table import measure
from activation.places import MARKER, new_folder, path_of, run
from activation.shared import bare_venv, piped_venv, target_folder
from conftest import CHECKOUT, clean_environment

DOC = CHECKOUT / "docs" / "activation.md"
DROP_IN = CHECKOUT / "docs" / "deploy" / "gaudi-shadow.conf"
BY_HAND = "import gaudi_shadow.startup; gaudi_shadow.startup.install()"


@pytest.fixture(scope="module")
def marker() -> Path:
    path = new_folder() / MARKER.name
    path.write_bytes(MARKER.read_bytes())
    return path


def test_the_table_in_the_docs_is_what_is_measured_here() -> None:
    found = re.search(r"<!-- measured -->\n(.*?)<!-- end -->", DOC.read_text("utf-8"), re.DOTALL)
    assert found is not None
    assert found[1] == measure().markdown()


def is_active(stdout: str) -> bool:
    answer = json.loads(stdout)
    assert answer["finders"] == int(any(answer["patched"]))
    return bool(all(answer["patched"]))


def test_a_cleared_environment_with_pythonpath_in_it_is_active(marker: Path) -> None:
    inject = target_folder() / "gaudi_shadow" / "inject"
    assert not is_active(run(bare_venv().python, marker, env={}).stdout)
    assert is_active(run(bare_venv().python, marker, env={"PYTHONPATH": str(inject)}).stdout)


def test_the_systemd_drop_in_gives_a_service_the_hook(marker: Path, tmp_path: Path) -> None:
    (line,) = [line for line in DROP_IN.read_text("utf-8").splitlines() if line.startswith("Environment=PYTHONPATH=")]
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "gaudi-shadow").symlink_to(target_folder())
    value = line.removeprefix("Environment=PYTHONPATH=").replace("/opt/", f"{tmp_path}/opt/")
    clean = ("env", "-i", "PATH=/usr/bin:/bin", f"PYTHONPATH={value}")
    assert is_active(run(*clean, bare_venv().python, marker).stdout)


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_an_install_into_the_environment_is_the_way_out_for_flags(marker: Path, flag: str) -> None:
    inject = target_folder() / "gaudi_shadow" / "inject"
    env = clean_environment(PYTHONPATH=path_of(inject))
    assert not is_active(run(bare_venv().python, flag, marker, env=env).stdout)
    assert is_active(run(piped_venv().python, flag, marker).stdout)


def test_without_site_the_hook_is_installed_by_hand(tmp_path: Path) -> None:
    assert f"`{BY_HAND}`" in DOC.read_text("utf-8")
    site_packages = piped_venv().site_packages
    program = tmp_path / "program.py"
    body = f"import sys\nsys.path.append({str(site_packages)!r})\n{{}}import shadow_marker\nshadow_marker.main([])\n"
    program.write_text(body.format(""), "utf-8")
    assert not is_active(run(piped_venv().python, "-S", program).stdout)
    program.write_text(body.format(BY_HAND + "\n"), "utf-8")
    assert is_active(run(piped_venv().python, "-S", program).stdout)
