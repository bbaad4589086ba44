"""`gaudi-shadow verify`, run as a command: what a maintainer learns of a release's tree, and that the advice works."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    APPLIED,
    BUDGET,
    COVERED,
    MERGE,
    RUNNER_FILE,
    UTILS_FILE,
    change,
    checked,
    fixes_in,
    gaudi_shadow,
    on_path,
    report_of,
    states_in,
)
from conftest import RUNNER, UTILS, Workshop, clean_environment

from gaudi_shadow.demo.standin import write_release

ENCODER = "HPUModelRunner._execute_mm_encoder"
CHECKS = "            sanity_check_mm_encoder_outputs(outputs, expected_num_items=count)\n"
SCATTER = "rows.masked_scatter_(is_multimodal.unsqueeze(-1), source)"


def verify(hook: Path, root: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return gaudi_shadow(hook, "verify", "--root", root, *args, env=clean_environment())


def found_by(hook: Path, root: Path, *args: str | Path) -> dict[str, Any]:
    return report_of(verify(hook, root, "--json", *args))


def a_tree(folder: Path, file: str, old: str, new: str) -> Path:
    """The stand-in for v0.26.0 without a version, changed in one place."""
    tree = write_release(folder, "v0.26.0", metadata=False)
    change(tree, file, old, new)
    return tree


def merged(document: Any, addition: Any) -> Any:
    """As the command says it: objects key by key, what a list holds at the end of the list there."""
    if isinstance(addition, list):
        return [*(document or []), *addition]
    if isinstance(addition, dict):
        document = dict(document or {})
        return document | {name: merged(document.get(name), value) for name, value in addition.items()}
    return addition


def merge_into_manifests(hook: Path, additions: dict[str, Any]) -> None:
    for file, addition in additions.items():
        path = hook / "gaudi_shadow" / file
        path.write_text(json.dumps(merged(json.loads(path.read_text("utf-8")), addition)), "utf-8")


def listed(hook: Path, release: str) -> tuple[str, dict[str, str]]:
    """A release's state and its fixes', as `releases` lists them."""
    done = gaudi_shadow(hook, "releases", "--json", env=clean_environment())
    entry = next(each for each in json.loads(done.stdout) if each["release"] == release)
    return entry["state"], {name: fix["state"] for name, fix in entry["fixes"].items()}


def test_a_tree_that_fits(workshop: Workshop) -> None:
    done = verify(workshop.hook, workshop.trees["v0.26.0"])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert f"{UTILS} patched by overlay v0.26.0: {MERGE} applied" in lines
    patched = f"{RUNNER} patched by overlay v0.26.0: {BUDGET} applied, {COVERED} not needed"
    assert any(line.startswith(patched) for line in lines)
    assert f"overlay v0.26.0, {BUDGET}: fits" in lines
    assert any(line.startswith(f"overlay v0.30.0, {BUDGET}: drifted: {ENCODER} has changed") for line in lines)
    assert lines[-2:] == ["next:", "- nothing: the release is listed, and every fix fits or is not needed"]


def test_a_new_release_with_the_known_text_is_to_be_listed(own_workshop: Workshop, tmp_path: Path) -> None:
    tree = write_release(tmp_path / "new", "v0.26.0", metadata=False)
    unnamed = found_by(own_workshop.hook, tree)
    assert (unnamed["add"], unnamed["exit_code"]) == ({}, 0)
    assert unnamed["next"] == ["nothing, unless the release is to be listed: then name it with --release"]

    named = found_by(own_workshop.hook, tree, "--release", "v0.28.0")
    assert named["next"][0] == "merge what is to add, so that 'gaudi-shadow releases' lists v0.28.0"
    merge_into_manifests(own_workshop.hook, named["add"])
    assert listed(own_workshop.hook, "v0.28.0") == ("accepted", APPLIED["v0.26.0"])
    assert found_by(own_workshop.hook, tree, "--release", "v0.28.0")["add"] == {}


def test_what_it_says_to_add_makes_a_drifted_tree_fit(own_workshop: Workshop, tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "new", RUNNER_FILE, CHECKS, CHECKS + "            del count\n")
    found = found_by(own_workshop.hook, tree, "--release", "v0.28.0")
    assert found["exit_code"] == 2
    (drifted,) = found["drifted"]
    assert (drifted["module"], drifted["function"], drifted["in_the_way"]) == (RUNNER, ENCODER, "")
    addition = found["add"]["overlays/v0.26.0/manifest.json"]["fixes"][BUDGET]
    assert addition["fingerprints"] == [drifted["fingerprint"]]

    merge_into_manifests(own_workshop.hook, found["add"])
    assert found_by(own_workshop.hook, tree, "--release", "v0.28.0")["exit_code"] == 0
    assert listed(own_workshop.hook, "v0.28.0")[0] == "accepted"
    report = checked(own_workshop.hook, "--root", tree, env=on_path(own_workshop.hook))
    assert states_in(report) == APPLIED["v0.26.0"]


def test_a_tree_without_a_version_says_where_its_name_is_to_be_filled_in(workshop: Workshop, tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "new", RUNNER_FILE, CHECKS, CHECKS + "            del count\n")
    lines = verify(workshop.hook, tree).stdout.splitlines()
    assert lines[0] == f"vllm-gaudi of unknown version in {tree}"
    assert found_by(workshop.hook, tree)["release"] == "unknown"
    (named,) = (line for line in lines if line.startswith("- name the release with --release"))
    assert "<name of the release>" in named
    (filled,) = (line for line in lines if '"<name of the release>"' in line)
    assert filled.strip() == '"<name of the release>"'
    assert "<name" not in verify(workshop.hook, tree, "--release", "v0.28.0").stdout


def test_the_difference_is_what_the_fingerprint_sees(workshop: Workshop, tmp_path: Path) -> None:
    changed = CHECKS.replace("count)", "len(pairs))") + "\n            # a comment, and a blank line\n"
    tree = a_tree(tmp_path / "new", RUNNER_FILE, CHECKS, changed)
    (drifted,) = found_by(workshop.hook, tree, "--against", workshop.trees["v0.26.0"])["drifted"]
    before, after, *lines = drifted["difference"].splitlines()
    assert before.endswith(f"{workshop.trees['v0.26.0'].joinpath(*RUNNER.split('.'))}.py: {ENCODER}")
    assert after.endswith(f"{tree.joinpath(*RUNNER.split('.'))}.py: {ENCODER}")
    assert [line for line in lines if line[0] in "+-"] == [
        f"-{CHECKS[4:].rstrip()}",
        f"+{CHECKS[4:].rstrip().replace('count)', 'len(pairs))')}",
    ]
    done = verify(workshop.hook, tree, "--against", workshop.trees["v0.26.0"])
    assert drifted["difference"] in done.stdout
    assert "read what changed" not in done.stdout
    assert "read what changed" in verify(workshop.hook, tree).stdout


def test_other_arguments_need_another_overlay(workshop: Workshop, tmp_path: Path) -> None:
    definition = "def _execute_mm_encoder(self, scheduler_output, req_ids):"
    tree = a_tree(tmp_path / "new", RUNNER_FILE, definition, definition.replace("req_ids", "req_ids, budget"))
    done = verify(workshop.hook, tree)
    assert done.returncode == 2
    assert f"- {ENCODER} needs an overlay of its own in any case: its arguments or its kind" in done.stdout


def test_a_global_that_is_gone_is_drift_though_the_function_is_as_it_was(
    own_workshop: Workshop, tmp_path: Path
) -> None:
    tree = a_tree(tmp_path / "new", RUNNER_FILE, "import habana_frameworks.torch as htorch\n", "")
    found = found_by(own_workshop.hook, tree)
    assert found["exit_code"] == 2
    entry = next(each for each in found["overlays"] if (each["overlay"], each["fix"]) == ("v0.26.0", BUDGET))
    assert entry["state"] == "drifted"
    assert "reads htorch, which the module does not define" in entry["reason"]
    report = checked(own_workshop.hook, "--root", tree, env=on_path(own_workshop.hook))
    assert (report["exit_code"], states_in(report)[BUDGET]) == (2, "drifted")
    assert "no longer defines htorch, which ours reads" in fixes_in(report)[BUDGET]["reason"]


def test_a_function_that_is_gone(workshop: Workshop, tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "new", RUNNER_FILE, "def _execute_mm_encoder(", "def _encode(")
    shutil.rmtree(tree / "vllm_gaudi" / "models")
    done = verify(workshop.hook, tree)
    assert done.returncode == 2
    assert f"- find where _merge_multimodal_embeddings, {ENCODER} went" in done.stdout
    assert "there is no package vllm_gaudi.models" in done.stdout
    assert "to add to" not in done.stdout


def test_what_upstream_has_fixed_is_put_on_record(own_workshop: Workshop, tmp_path: Path) -> None:
    fixed = "rows.index_copy_(0, is_multimodal.nonzero().squeeze(-1), source)"
    tree = a_tree(tmp_path / "new", UTILS_FILE, SCATTER, fixed)
    found = found_by(own_workshop.hook, tree, "--release", "v0.28.0")
    assert found["exit_code"] == 0
    merge_into_manifests(own_workshop.hook, found["add"])
    assert listed(own_workshop.hook, "v0.28.0")[1][MERGE] == "not needed"
    summary = next(each for each in found_by(own_workshop.hook, tree)["modules"] if each["module"] == UTILS)
    assert "known by its fingerprint sha256:" in summary["fixes"][MERGE]["reason"]


def test_a_refused_text_is_not_offered_again(own_workshop: Workshop, tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "new", RUNNER_FILE, CHECKS, CHECKS + "            del count\n")
    addition = found_by(own_workshop.hook, tree, "--release", "v0.28.0")["add"]
    entry = addition["overlays/v0.26.0/manifest.json"]["fixes"][BUDGET]
    (fingerprint,) = entry.pop("fingerprints")
    entry["seen"][fingerprint]["note"] = "it counts nothing, and no overlay is written for it"
    merge_into_manifests(own_workshop.hook, addition)
    found = found_by(own_workshop.hook, tree, "--release", "v0.28.1")
    assert found["exit_code"] == 2
    assert {fix for manifest in found["add"].values() for fix in manifest["fixes"]} == {MERGE}
    report = checked(own_workshop.hook, "--root", tree, env=on_path(own_workshop.hook))
    assert "is that of v0.28.0 (found sha256:" in fixes_in(report)[BUDGET]["reason"]
    assert "it counts nothing, and no overlay is written for it" in fixes_in(report)[BUDGET]["reason"]


def test_a_tree_is_neither_executed_nor_written_to(workshop: Workshop, tmp_path: Path) -> None:
    tree = write_release(tmp_path / "new", "v0.26.0", metadata=False)
    for path in (tree / "vllm_gaudi").rglob("*.py"):
        path.write_text(path.read_text("utf-8") + "\nraise SystemExit('executed')\n", "utf-8")
    before = sorted(tree.rglob("*"))
    assert verify(workshop.hook, tree).returncode == 0
    assert sorted(tree.rglob("*")) == before


def test_a_zip_file(workshop: Workshop, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "release"), "zip", workshop.trees["v0.26.0"])
    assert verify(workshop.hook, Path(archive)).returncode == 0


def test_no_vllm_gaudi_there(workshop: Workshop, tmp_path: Path) -> None:
    done = verify(workshop.hook, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gaudi-shadow verify: --root: there is no vllm_gaudi in {tmp_path}\n"
    against = verify(workshop.hook, workshop.trees["v0.26.0"], "--against", tmp_path)
    assert (against.returncode, against.stdout) == (1, "")
    assert against.stderr == f"gaudi-shadow verify: --against: there is no vllm_gaudi in {tmp_path}\n"


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ([], "the following arguments are required: --root"),
        (["--root", "nowhere"], "--root nowhere: there is no such folder"),
        (["--root", ".", "--against", "nowhere"], "--against nowhere: there is no such folder"),
        (["--root", ".", "--agains"], "expected one argument"),
    ],
)
def test_usage(workshop: Workshop, args: list[str], complaint: str) -> None:
    done = gaudi_shadow(workshop.hook, "verify", *args, env=clean_environment())
    assert (done.returncode, done.stdout) == (64, "")
    assert complaint in done.stderr


def test_a_real_tree_fits_as_check_says(shipped: Path, release_root: Path) -> None:
    found = found_by(shipped, release_root)
    report = checked(shipped, "--root", release_root, env=on_path(shipped))
    states = {name: fix["state"] for module in found["modules"] for name, fix in module["fixes"].items()}
    assert states == states_in(report)
    assert found["exit_code"] == report["exit_code"]
    assert (
        all(module["patched"] for module in found["modules"]) or found["exit_code"] or "not needed" in states.values()
    )
