"""coverage and ddtrace, the real ones, active in the same process as ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from activation.places import Venv, path_of, run
from activation.shared import checkout, piped_on, venv_from_index
from conftest import RUNNER, UTILS, clean_environment

pytestmark = pytest.mark.slow

NO_AGENT = {
    "DD_TRACE_STARTUP_LOGS": "0",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "0",
    "DD_REMOTE_CONFIGURATION_ENABLED": "0",
    "DD_CRASHTRACKING_ENABLED": "0",
}
CALL = f"""
import shadow_marker
import {UTILS} as utils
utils._merge_multimodal_embeddings("x", [], None)
utils.sequence_parallel_chunk("x")
shadow_marker.main([])
"""
READ_COVERAGE = """
import coverage, glob, json
found = set()
for name in glob.glob(".coverage.*"):
    data = coverage.CoverageData(name)
    data.read()
    found |= data.measured_files()
print(json.dumps(sorted(found)))
"""
ORDER = f"""
import sys
from ddtrace.internal.module import ModuleWatchdog
from gaudi_shadow.startup import install
ModuleWatchdog.install()
install("by hand")
import shadow_marker
sys.meta_path.sort(key=lambda finder: shadow_marker.owner(finder) != {{first!r}})
calls = []
ModuleWatchdog.register_module_hook({UTILS!r}, lambda module: calls.append(module))
import {UTILS}, {RUNNER}
assert calls == [sys.modules[{UTILS!r}]], calls
shadow_marker.main([])
"""


def answer(*args: str | Path, here: Path, **variables: str) -> dict[str, object]:
    """Run the marker; both targets are patched by one finder, and we print nothing."""
    env = clean_environment(PYTHONDONTWRITEBYTECODE="1", **NO_AGENT, **variables)
    done = run(*args, env=env, cwd=here)
    assert "gaudi-shadow" not in done.stderr and "gaudi_shadow" not in done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert found["patched"] == [True, True] and found["finders"] == 1
    return found


def bare() -> Venv:
    return venv_from_index("companions")


def piped() -> Venv:
    return piped_on("companions")


def bootstrap() -> Path:
    """What `ddtrace-run` puts first on PYTHONPATH."""
    return bare().site_packages / "ddtrace" / "bootstrap"


def users(folder: Path) -> Path:
    (folder / "users").mkdir()
    note = f"with open({str(folder / 'log')!r}, 'a') as log:\n    log.write(__import__('sys').executable + '\\n')\n"
    (folder / "users" / "sitecustomize.py").write_text(note, "utf-8")
    return folder / "users"


def ran_once(folder: Path, venv: Venv) -> bool:
    """`ddtrace-run` is a Python of its own, so the starts are told apart by their interpreter."""
    return (folder / "log").read_text("utf-8").split().count(str(venv.python)) == 1


def measured_files(folder: Path) -> set[str]:
    return set(json.loads(run(bare().python, "-c", READ_COVERAGE, cwd=folder).stdout))


def start_coverage(folder: Path) -> dict[str, str]:
    config = folder / "coveragerc"
    data = f"data_file = {folder / '.coverage'}\nparallel = true\n"
    config.write_text(f"[run]\nsource_pkgs = vllm_gaudi\n{data}", "utf-8")
    return {"COVERAGE_PROCESS_START": str(config)}


def test_coverage_by_its_pth(tmp_path: Path) -> None:
    found = answer(piped().python, "-c", CALL, here=tmp_path, **start_coverage(tmp_path))
    assert found["route"] == "pth"
    assert str(bare().site_packages / "vllm_gaudi" / "models" / "utils.py") in measured_files(tmp_path)


def test_ddtrace_run_with_the_wheel(tmp_path: Path) -> None:
    command = (bare().folder / "bin" / "ddtrace-run", piped().python, "-m", "shadow_marker")
    found = answer(*command, here=tmp_path, PYTHONPATH=str(users(tmp_path)))
    assert found["route"] == "pth" and "ddtrace" in found["owners"]
    assert ran_once(tmp_path, piped())


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "ddtrace's first"])
def test_ddtrace_and_our_checkout_on_pythonpath(tmp_path: Path, ours_first: bool) -> None:
    pair = [checkout(), bootstrap()] if ours_first else [bootstrap(), checkout()]
    path = path_of(*pair, users(tmp_path))
    found = answer(bare().python, "-m", "shadow_marker", here=tmp_path, PYTHONPATH=path)
    assert found["route"] == "sitecustomize" and "ddtrace" in found["owners"]
    assert ran_once(tmp_path, bare())


@pytest.mark.parametrize("first", ["ddtrace", "gaudi_shadow"])
def test_either_order_on_meta_path_puts_the_graft_in_place(tmp_path: Path, first: str) -> None:
    package = path_of(bare().site_packages, checkout())
    found = answer(bare().python, "-S", "-c", ORDER.format(first=first), here=tmp_path, PYTHONPATH=package)
    assert found["owners"][0] == first and {"ddtrace", "gaudi_shadow"} <= set(found["owners"])


def test_all_of_them_at_once(tmp_path: Path) -> None:
    path = path_of(bootstrap(), checkout(), users(tmp_path))
    found = answer(piped().python, "-c", CALL, here=tmp_path, PYTHONPATH=path, **start_coverage(tmp_path))
    assert found["route"] == "pth" and "ddtrace" in found["owners"]
    assert ran_once(tmp_path, piped())
    assert str(bare().site_packages / "vllm_gaudi" / "models" / "utils.py") in measured_files(tmp_path)
