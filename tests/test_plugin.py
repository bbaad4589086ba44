"""The vLLM plugin: importing it installs the hook, calling it says what became of the fixes, once a process."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from activation.places import change_function, new_folder, path_of, run, run_any, write_stack
from activation.shared import bare_venv, piped_venv, target_folder
from conftest import RUNNER, UTILS, clean_environment

from gaudi_shadow.demo.workshop import copy_package
from gaudi_shadow.finder import ShadowFinder

BOTH = f"import {UTILS}, {RUNNER}\n"
HEAD = """
import json, logging, sys
said = []
class Ear(logging.Handler):
    def emit(self, record):
        said.append([record.levelname, record.name, record.getMessage()])
logging.getLogger("vllm").addHandler(Ear())
logging.getLogger("vllm").setLevel(logging.INFO)
"""
TAIL = "\nprint(json.dumps(said))\n"
REGISTER = "from gaudi_shadow.plugin import register\nregister()\n"


@dataclass
class Said:
    """What a program logged under "vllm" (level, logger, text), or how it ended."""

    lines: list[list[str]]
    exit_code: int
    stderr: str


def say(program: str, *entries: Path, **variables: str) -> Said:
    """Run a program with the plugin as the only route, and `entries` before it on PYTHONPATH."""
    env = clean_environment(PYTHONPATH=path_of(*entries, target_folder()), PYTHONDONTWRITEBYTECODE="1", **variables)
    done = run_any(bare_venv().python, "-c", HEAD + program + TAIL, env=env, cwd=new_folder())
    return Said(json.loads(done.stdout) if done.returncode == 0 else [], done.returncode, done.stderr)


def test_the_wheel_declares_it() -> None:
    asked = "from importlib.metadata import entry_points as e; print(*[(x.name, x.value) for x in e(group={!r})])"
    found = run(piped_venv().python, "-c", asked.format("vllm.general_plugins")).stdout
    assert found.strip() == str(("gaudi_shadow", "gaudi_shadow.plugin:register"))


def test_its_import_installs_the_hook_and_nothing_of_vllm() -> None:
    program = (
        "import gaudi_shadow.plugin\nsaid = [type(sys.meta_path[0]).__name__, *(n for n in sys.modules if 'vllm' in n)]"
    )
    assert say(program).lines == [ShadowFinder.__name__]


def test_a_plugin_that_vllm_calls_before_ours_imports_patched_targets(tmp_path: Path) -> None:
    (tmp_path / "aaa_early.py").write_text(f"def call():\n    import {UTILS}, {RUNNER}\n", "utf-8")
    info = tmp_path / "aaa_early-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aaa_early\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\naaa = aaa_early:call\n", "utf-8")
    loaded = say("import shadow_marker; shadow_marker.load_plugins()", tmp_path)
    ((level, logger, line),) = [each for each in loaded.lines if "hook by" in each[2]]
    assert (level, logger) == ("INFO", "vllm.gaudi_shadow")
    assert f"{UTILS} patched: mm-merge-idxcopy applied" in line and f"{RUNNER} patched: mm-encoder-budget" in line
    assert "hook by plugin" in line and "vllm-gaudi 0.30.0, overlay v0.30.0" in line


def test_before_the_import_the_line_says_what_will_be(tmp_path: Path) -> None:
    said = say(REGISTER + "said.append(sorted(n for n in sys.modules if n.startswith('vllm_gaudi')))")
    (level, _, line), imported = said.lines
    assert level == "INFO" and imported == []
    assert f"{UTILS} patched on import: mm-merge-idxcopy applied" in line
    assert "mm-encoder-budget applied but idle: set VLLM_HPU_MM_ENCODER_MAX_PATCHES" in line
    assert "mm-encoder-covered applied" in line


def test_the_line_names_the_budget() -> None:
    said = say(REGISTER, VLLM_HPU_MM_ENCODER_MAX_PATCHES="4096")
    assert "mm-encoder-budget applied with a budget of 4096 patches" in said.lines[0][2]


def test_one_line_a_process_and_one_for_a_forked_child() -> None:
    said = say(
        REGISTER + "register()\n" + "import os\nif os.fork() == 0:\n    register()\nelse:\n    os._exit(os.wait()[1])"
    )
    assert [level for level, _, _ in said.lines] == ["INFO", "INFO"]


def test_a_budget_that_is_no_number_stops_the_engine_by_name() -> None:
    said = say(REGISTER, VLLM_HPU_MM_ENCODER_MAX_PATCHES="4.0")
    assert said.exit_code == 1
    last = said.stderr.strip().splitlines()[-1]
    assert ": gaudi-shadow: VLLM_HPU_MM_ENCODER_MAX_PATCHES='4.0' is not a whole number of patches" in last


def test_too_late_is_a_warning_and_says_what_to_do() -> None:
    said = say(BOTH + REGISTER)
    ((level, _, line),) = said.lines
    assert level == "WARNING"
    for name in (UTILS, RUNNER):
        assert f"{name} stays stock: it was imported before the hook was installed" in line
    assert "make the hook active at interpreter start (see docs/activation.md)" in line


def test_too_late_stops_a_strict_engine() -> None:
    said = say(BOTH + REGISTER, VLLM_GAUDI_SHADOW_STRICT="1")
    last = said.stderr.strip().splitlines()[-1]
    assert said.exit_code == 1
    assert last.startswith("RuntimeError: VLLM_GAUDI_SHADOW_STRICT is set, and gaudi-shadow ")
    assert "was imported before the hook" in last


@pytest.fixture(scope="module")
def drifted() -> Path:
    """A site-packages whose merge has changed."""
    tree = write_stack(new_folder() / "tree")
    change_function(tree / "vllm_gaudi" / "models" / "utils.py", "_merge_multimodal_embeddings")
    return tree


@pytest.mark.parametrize("imports", ["", BOTH], ids=["before the import", "after it"])
def test_drift_is_a_warning_and_says_what_to_do(drifted: Path, imports: str) -> None:
    said = say("import gaudi_shadow.plugin\n" + imports + REGISTER, drifted)
    level, _, line = said.lines[-1]
    assert level == "WARNING"
    assert f"{UTILS} stays stock: mm-merge-idxcopy drifted: _merge_multimodal_embeddings has changed" in line
    assert "gaudi-shadow check" in line and "mm-encoder-covered applied" in line


def test_drift_stops_a_strict_engine(drifted: Path) -> None:
    said = say(REGISTER, drifted, VLLM_GAUDI_SHADOW_STRICT="1")
    assert said.exit_code == 1
    assert "mm-merge-idxcopy drifted" in said.stderr.strip().splitlines()[-1]


def test_what_is_switched_off_is_no_fault() -> None:
    said = say(REGISTER, VLLM_GAUDI_SHADOW_DISABLE="mm-merge-idxcopy", VLLM_GAUDI_SHADOW_STRICT="1")
    ((level, _, line),) = said.lines
    assert level == "INFO" and f"{UTILS} stays stock: mm-merge-idxcopy disabled" in line


def test_all_off_is_said_and_nothing_is_patched() -> None:
    said = say(REGISTER + BOTH, VLLM_GAUDI_SHADOW="0", VLLM_GAUDI_SHADOW_STRICT="1")
    assert said.lines == [
        ["INFO", "vllm.gaudi_shadow", "gaudi-shadow: VLLM_GAUDI_SHADOW switches it off; vllm-gaudi runs stock"]
    ]


def test_a_switch_that_arrives_after_the_start_counts() -> None:
    program = f"import gaudi_shadow.plugin, os\nos.environ['VLLM_GAUDI_SHADOW'] = '0'\nimport gaudi_shadow\n{BOTH}"
    said = say(program + "said.append(gaudi_shadow.status())")
    (status,) = said.lines
    assert status["hook"] == {"active": False, "route": "plugin", "reason": "VLLM_GAUDI_SHADOW switches it off"}
    assert {entry["state"] for entry in status["modules"].values()} == {"stock"}


def test_without_vllm_gaudi_there_is_nothing_to_do(tmp_path: Path) -> None:
    write_stack(tmp_path, release=False)
    env = clean_environment(PYTHONPATH=path_of(target_folder(), tmp_path), VLLM_GAUDI_SHADOW_STRICT="1")
    done = run(sys.executable, "-S", "-c", HEAD + REGISTER + TAIL, env=env, cwd=tmp_path)
    ((level, _, line),) = json.loads(done.stdout)
    assert level == "INFO" and line.endswith(": vllm_gaudi is not here")


def test_a_part_of_ours_that_is_broken_stops_no_engine(tmp_path: Path) -> None:
    broken = copy_package(tmp_path / "broken")
    for manifest in (broken / "gaudi_shadow" / "overlays").glob("*/manifest.json"):
        manifest.write_text("{", "utf-8")
    said = say(REGISTER, broken)
    assert said.lines[0][0] == "WARNING" and "manifest.json" in said.lines[0][2]
    assert say(REGISTER, broken, VLLM_GAUDI_SHADOW_STRICT="1").exit_code == 1
