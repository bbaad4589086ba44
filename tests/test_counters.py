"""What the fixes count in `gaudi_shadow.status()`, and the line that they log for each encoder step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, Workshop, clean_environment, run_python

from gaudi_shadow import counters

STEP = (
    "DEBUG vllm.gaudi_shadow: gaudi-shadow: encoder step: {} items, {} patches, {} groups, largest group {} patches\n"
)


@pytest.fixture(scope="module")
def answers(workshop: Workshop) -> dict[str, Any]:
    """One interpreter on the stand-in for v0.30.0 with a budget of 10 patches."""
    environment = workshop.environment("v0.30.0", VLLM_HPU_MM_ENCODER_MAX_PATCHES="10")
    done = run_python(Path(__file__).with_name("counters_script.py"), env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_groups(answers: dict[str, Any]) -> None:
    assert answers["groups"]["added"] == {"encoder_calls": 3, "groups_split": 2, "largest_call_patches": 20}


def test_the_largest_call_is_kept(answers: dict[str, Any]) -> None:
    assert answers["larger"]["added"] == {"encoder_calls": 1, "largest_call_patches": 33 - 20}
    assert answers["smaller"]["added"] == {"encoder_calls": 1}


def test_items_without_a_grid(answers: dict[str, Any]) -> None:
    assert answers["no grid"]["added"] == {"encoder_calls": 3, "groups_split": 2, "items_without_grid": 2}


def test_covered_features(answers: dict[str, Any]) -> None:
    assert answers["covered"]["added"] == {"encoder_calls": 1, "covered_features_skipped": 2}


def test_a_step_with_nothing_to_do_counts_nothing(answers: dict[str, Any]) -> None:
    assert answers["cached"] == {"added": {}, "log": "", "error": None}


def test_a_call_that_fails_is_no_call(answers: dict[str, Any]) -> None:
    assert answers["broken"]["error"] == "RuntimeError: the tower fails"
    assert answers["broken"]["added"] == {}


@pytest.mark.parametrize("how", ["mask", "index"])
def test_merges(answers: dict[str, Any], how: str) -> None:
    assert answers[how] == {"added": {"merges": 1}, "log": "", "error": None}


def test_nothing_to_merge(answers: dict[str, Any]) -> None:
    assert answers["nothing to merge"]["added"] == {}


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("too few", "ValueError: Attempted to assign 1 = 1 multimodal tokens to 2 placeholders"),
        ("too many", "ValueError: Attempted to assign 3 = 3 multimodal tokens to 2 placeholders"),
    ],
)
def test_mismatches(answers: dict[str, Any], how: str, error: str) -> None:
    assert answers[how]["added"] == {"merges": 1, "merge_mismatches": 1}
    assert answers[how]["error"] == error


def test_every_counter_is_seen_to_count(answers: dict[str, Any]) -> None:
    seen = {name for answer in answers.values() if isinstance(answer, dict) for name in answer["added"]}
    assert seen == set(counters.counts)


def test_a_step_is_logged_at_debug_and_not_at_info(answers: dict[str, Any]) -> None:
    assert answers["groups"]["log"] == ""
    assert answers["groups at DEBUG"]["log"] == STEP.format(6, 40, 3, 20)
    assert answers["no grid"]["log"] == STEP.format(3, 4, 3, 4)
    assert answers["covered"]["log"] == STEP.format(1, 4, 1, 4)


def test_the_import_is_logged_at_info(answers: dict[str, Any]) -> None:
    lines = [line for line in answers["imported"].splitlines() if "hpu_model_runner" in line]
    assert [line.partition(": ")[0] for line in lines] == ["INFO vllm.gaudi_shadow"]
    assert "mm-encoder-budget applied with a budget of 10 patches" in lines[0]


def test_status_in_a_process_without_the_targets_counts_nothing(workshop: Workshop) -> None:
    code = "import json, gaudi_shadow; print(json.dumps(gaudi_shadow.status()['counters']))"
    done = run_python("-c", code, env=clean_environment(PYTHONPATH=os.fspath(workshop.hook)), cwd=CHECKOUT.parent)
    assert json.loads(done.stdout) == dict.fromkeys(counters.counts, 0)
