"""A target that is imported before the hook, or past it, is not executed again, and `status` says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from activation.places import path_of, run, write_stack
from activation.shared import bare_venv, checkout, copy_of_piped
from conftest import RUNNER, UTILS, clean_environment

STATUS = "import gaudi_shadow, json; print(json.dumps(gaudi_shadow.status()))\n"
COUNT = "\nimport sys\nsys.executions = getattr(sys, 'executions', 0) + 1\n"
LATE = "it was imported before the hook was installed and is not executed again"


def count_executions(site_packages: Path) -> None:
    with (site_packages / "vllm_gaudi" / "models" / "utils.py").open("a", encoding="utf-8") as file:
        file.write(COUNT)


def test_an_install_after_the_import(tmp_path: Path) -> None:
    write_stack(tmp_path)
    count_executions(tmp_path)
    program = (
        f"import {UTILS}, sys\nfrom gaudi_shadow.startup import install\ninstall('by hand')\n"
        f"import {UTILS}, {RUNNER}\nassert sys.executions == 1\n{STATUS}"
    )
    env = clean_environment(PYTHONPATH=path_of(tmp_path, checkout()))
    done = run(bare_venv().python, "-S", "-c", program, env=env, cwd=tmp_path)
    status = json.loads(done.stdout)
    assert status["modules"][UTILS] == {"state": "stock", "reason": LATE, "fixes": {}}
    assert status["modules"][RUNNER]["state"] == "patched"
    (line,) = done.stderr.splitlines()
    assert line == (
        f"gaudi-shadow: {UTILS} stays stock: {LATE}; install the hook at interpreter start (see docs/activation.md)"
    )


def test_a_pth_that_is_read_before_ours(tmp_path: Path) -> None:
    venv = copy_of_piped(tmp_path / "venv")
    count_executions(venv.site_packages)
    (venv.site_packages / "another.pth").write_text(f"import {UTILS}\n", "utf-8")
    done = run(venv.python, "-c", f"import {UTILS}, sys\nassert sys.executions == 1\n{STATUS}")
    status = json.loads(done.stdout)
    assert status["hook"]["active"] and status["modules"][UTILS]["reason"] == LATE
    assert done.stderr.count(LATE) == 1
    (venv.site_packages / "another.pth").rename(venv.site_packages / "later.pth")
    done = run(venv.python, "-c", STATUS)
    assert json.loads(done.stdout)["modules"][UTILS]["state"] == "patched" and done.stderr == ""


@pytest.mark.parametrize("first", [True, False], ids=["answers before ours", "asked after ours"])
def test_a_finder_that_answers_for_a_target(first: bool) -> None:
    program = f"""
import importlib.machinery, sys

class Other:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path) if name.startswith("vllm_gaudi") else None

sys.meta_path.insert(0 if {first} else 1, Other())
import {UTILS}
{STATUS}"""
    done = run(bare_venv().python, "-c", program, env=clean_environment(PYTHONPATH=str(checkout())))
    entry = json.loads(done.stdout)["modules"][UTILS]
    assert entry["state"] == ("stock" if first else "patched")
    assert ("another finder answered first" in entry["reason"]) is first
