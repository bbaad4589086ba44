"""`gaudi-shadow report`, run as a user runs it: what it tells, and what it must not tell."""

from __future__ import annotations

import getpass
import os
import socket

import pytest
from conftest import clean_environment, run_python

from gaudi_shadow.inspection.reporting import without_paths


def report_of(workshop, release, **variables):
    done = run_python("-m", "gaudi_shadow", "report", env=workshop.environment(release, **variables), cwd=workshop.hook)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_names_versions_states_and_both_fingerprints(workshop):
    text = report_of(workshop, "v0.30.0", VLLM_HPU_MM_ENCODER_MAX_PATCHES="4096")
    assert "vllm-gaudi: 0.30.0, from metadata" in text
    assert "hook: active, by sitecustomize" in text
    assert "VLLM_HPU_MM_ENCODER_MAX_PATCHES='4096'" in text
    for fix in ("mm-encoder-budget", "mm-encoder-covered", "mm-merge-idxcopy"):
        assert f"{fix}: applied" in text
        assert f"known for {fix}: sha256:" in text
    assert text.count("    found sha256:") == 3


def test_a_drifted_function_shows_the_fingerprint_it_has_now(own_workshop):
    path = own_workshop.trees["v0.26.0"] / "vllm_gaudi/models/utils.py"
    before = report_of(own_workshop, "v0.26.0")
    path.write_text(path.read_text("utf-8").replace("htcore.mark_step()", "htcore.mark_step(  )"), "utf-8")
    after = report_of(own_workshop, "v0.26.0")
    assert "mm-merge-idxcopy: drifted" in after
    lines = [line for line in after.splitlines() if line.startswith("    found")]
    assert lines != [line for line in before.splitlines() if line.startswith("    found")]


def test_it_holds_no_path_no_user_and_no_host(workshop, tmp_path):
    secrets = {"HOME": str(tmp_path / "anna"), "VLLM_API_KEY": "s3cret", "PATH": os.environ["PATH"]}
    text = report_of(workshop, "v0.26.0", **secrets)
    for word in (str(workshop.hook), str(workshop.trees["v0.26.0"]), str(tmp_path), "anna", "s3cret"):
        assert word not in text
    # A user or host of a common name ("root", "localhost") may be an English word of the report; its home may not.
    assert f"/{getpass.getuser()}/" not in text
    assert socket.gethostname() not in text or len(socket.gethostname()) < 5


def test_without_a_release_it_says_so(workshop):
    env = clean_environment(PYTHONPATH=str(workshop.hook))
    done = run_python("-m", "gaudi_shadow", "report", env=env, cwd=workshop.hook)
    assert done.returncode == 0, done.stderr
    assert "vllm-gaudi: not found" in done.stdout


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("at /home/anna/venv/lib/vllm_gaudi/models/utils.py: gone", "at .../vllm_gaudi/models/utils.py: gone"),
        ("overlays of /opt/x/gaudi_shadow/overlays/v0.26.0", "overlays of .../gaudi_shadow/overlays/v0.26.0"),
        ("no such folder '/srv/models'", "no such folder '<path>'"),
        ("tokens/s and a/b stay", "tokens/s and a/b stay"),
    ],
)
def test_paths_are_cut_down(text, left):
    assert without_paths(text) == left
