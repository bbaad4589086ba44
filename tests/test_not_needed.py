"""A fault that upstream has fixed: known by a fingerprint or a marker that the manifest names, and left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import APPLIED, BUDGET, COVERED, MERGE, RUNNER_FILE, UTILS_FILE, change, check, fixes_in, states_in
from conftest import RUNNER, UTILS, Workshop, run_python

from gaudi_shadow.maintaining.release_tree import read_tree

MERGE_QUALNAME, ENCODER_QUALNAME = "_merge_multimodal_embeddings", "HPUModelRunner._execute_mm_encoder"
SCATTER = "rows.masked_scatter_(is_multimodal.unsqueeze(-1), source)"
COPY = "rows.index_copy_(0, is_multimodal.nonzero().squeeze(-1), source)"
ENCODES_ALL = "for feature in request.mm_features\n"


def fingerprint_of(workshop: Workshop, release: str, module: str, qualname: str) -> str:
    function = read_tree(str(workshop.trees[release])).function(module, qualname)
    assert function is not None
    return function.fingerprint


def accept_as_fixed(workshop: Workshop, release: str, fix: str, fingerprint: str) -> None:
    path = workshop.hook / "gaudi_shadow" / "overlays" / release / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["fixes"][fix].setdefault("fixed_fingerprints", []).append(fingerprint)
    path.write_text(json.dumps(manifest), "utf-8")


def test_known_by_a_marker(own_workshop: Workshop) -> None:
    change(own_workshop.trees["v0.26.0"], UTILS_FILE, SCATTER, COPY)
    report = check(own_workshop, "v0.26.0")
    assert report["exit_code"] == 0
    assert states_in(report) == APPLIED["v0.26.0"] | {MERGE: "not needed"}
    expected = f"{MERGE_QUALNAME} of this build does not have the fault: known by its marker 'nonzero('"
    assert fixes_in(report)[MERGE]["reason"] == expected


def test_known_by_a_fingerprint(own_workshop: Workshop) -> None:
    change(own_workshop.trees["v0.26.0"], UTILS_FILE, SCATTER, "rows[is_multimodal] = source")
    fingerprint = fingerprint_of(own_workshop, "v0.26.0", UTILS, MERGE_QUALNAME)
    drifted = check(own_workshop, "v0.26.0")
    assert (drifted["exit_code"], states_in(drifted)[MERGE]) == (2, "drifted")

    accept_as_fixed(own_workshop, "v0.26.0", MERGE, fingerprint)
    report = check(own_workshop, "v0.26.0")
    assert (report["exit_code"], states_in(report)[MERGE]) == (0, "not needed")
    assert fixes_in(report)[MERGE]["reason"].endswith(f"known by its fingerprint {fingerprint[:19]}")


@pytest.mark.parametrize("release", ["v0.26.0", "v0.30.0"])
def test_both_fixes_of_a_function_at_once(own_workshop: Workshop, release: str) -> None:
    scheduled = "for feature in scheduler_output.scheduled_encoder_inputs[request]\n"
    change(own_workshop.trees[release], RUNNER_FILE, ENCODES_ALL, scheduled)
    report = check(own_workshop, release)
    assert report["exit_code"] == 0
    assert states_in(report) == APPLIED[release] | {BUDGET: "not needed", COVERED: "not needed"}
    assert fixes_in(report)[BUDGET]["reason"].endswith("known by its marker 'scheduled_encoder_inputs'")


def test_one_of_two_faults_fixed_is_not_taken_for_both(own_workshop: Workshop) -> None:
    passed_over = ENCODES_ALL.replace("feature", "mm_feature") + "if not (mm_feature.data is None)\n"
    change(own_workshop.trees["v0.30.0"], RUNNER_FILE, ENCODES_ALL, passed_over.replace("mm_features", "features"))
    accept_as_fixed(own_workshop, "v0.30.0", COVERED, fingerprint_of(own_workshop, "v0.30.0", RUNNER, ENCODER_QUALNAME))
    report = check(own_workshop, "v0.30.0")
    assert report["exit_code"] == 2
    assert (states_in(report)[BUDGET], states_in(report)[COVERED]) == ("drifted", "not needed")


def test_a_marker_in_a_comment_does_not_count(own_workshop: Workshop) -> None:
    change(own_workshop.trees["v0.26.0"], UTILS_FILE, SCATTER, f"{SCATTER}  # nonzero() would be better")
    assert states_in(check(own_workshop, "v0.26.0"))[MERGE] == "applied"


@pytest.mark.parametrize(
    "addition",
    ['        note = "nonzero() would be better"\n', "        count = len(is_multimodal.nonzero())\n"],
    ids=["in a string", "in code beside the fault"],
)
def test_a_marker_does_not_count_in_a_string_or_while_the_fault_is_there(own_workshop: Workshop, addition: str) -> None:
    change(own_workshop.trees["v0.26.0"], UTILS_FILE, "        try:\n", addition + "        try:\n")
    report = check(own_workshop, "v0.26.0")
    assert (report["exit_code"], states_in(report)[MERGE]) == (2, "drifted")


def test_the_repair_named_in_a_log_line_is_none(own_workshop: Workshop) -> None:
    line = '        print(f"ignores {scheduler_output.scheduled_encoder_inputs}")\n        encoded = []\n'
    change(own_workshop.trees["v0.30.0"], RUNNER_FILE, "        encoded = []\n", line)
    report = check(own_workshop, "v0.30.0")
    assert (report["exit_code"], states_in(report)[BUDGET], states_in(report)[COVERED]) == (2, "drifted", "drifted")


def test_the_stock_function_runs_and_nothing_is_said(own_workshop: Workshop, tmp_path: Path) -> None:
    change(own_workshop.trees["v0.26.0"], UTILS_FILE, SCATTER, COPY)
    code = (
        f"import json, torch, gaudi_shadow, {UTILS} as utils\n"
        "x = utils._merge_multimodal_embeddings(torch.zeros(3, 1), [torch.ones(2, 1)], torch.eye(3)[1] == 0)\n"
        "file = utils._merge_multimodal_embeddings.__code__.co_filename\n"
        f"print(json.dumps([x.flatten().tolist(), file, gaudi_shadow.status()['modules']['{UTILS}']]))"
    )
    done = run_python("-c", code, env=own_workshop.environment("v0.26.0", VLLM_GAUDI_SHADOW_STRICT="1"))
    assert done.stderr == ""
    merged, file, status = json.loads(done.stdout)
    assert merged == [1.0, 0.0, 1.0]
    assert file == status["file"]
    assert status["state"] == "stock"
    assert status["fixes"][MERGE]["state"] == "not needed"
