"""The demo, run as a user runs it."""

from __future__ import annotations

import importlib.util
import json

import pytest
from conftest import CHECKOUT, clean_environment, run_python

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch (the demo extra)")


def run_demo(*args: str, **variables: str):
    return run_python("-m", "gaudi_shadow", "demo", *args, env=clean_environment(**variables), cwd=CHECKOUT)


def test_stock_shows_each_fault_and_patched_none():
    done = run_demo("--standin", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    stock, patched = report["stock"], report["patched"]
    assert "PT_DEVMEM Allocation failed" in stock["encoder"]["error"]
    assert "synStatus 26" in stock["merge"]["error"]
    assert "got <class 'NoneType'>" in stock["covered"]["error"]
    assert [patched[name]["error"] for name in ("encoder", "merge", "covered")] == [None, None, None]
    assert len(stock["encoder"]["calls"]) == 1
    assert patched["encoder"]["calls"] == [2048, 2048, 2048, 1024]
    assert sum(patched["encoder"]["calls"]) == stock["encoder"]["calls"][0]
    assert patched["encoder"]["digest"] == stock["encoder_on_a_large_card"]["digest"]
    assert patched["covered"]["cached"] == ["image-1"]


def test_the_table_says_which_release_it_used():
    done = run_demo("--standin")
    assert done.returncode == 0, done.stderr
    assert "release: a stand-in for v0.30.0" in done.stdout
    assert done.stdout.rstrip().endswith("the faults are gone")
    assert "left out, this release" not in done.stdout


def test_a_release_that_cannot_be_imported_is_named_and_the_standin_used(tmp_path):
    (tmp_path / "vllm_gaudi").mkdir()
    (tmp_path / "vllm_gaudi" / "__init__.py").write_text("raise ImportError('no card here')\n")
    done = run_demo("--root", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "no card here" in done.stdout
    assert "release: a stand-in" in done.stdout


def test_a_release_without_the_third_fault_is_said_to_lack_it(workshop):
    """By the copy that knows the stand-in for v0.26.0."""
    env, tree = clean_environment(), str(workshop.trees["v0.26.0"])
    done = run_python("-m", "gaudi_shadow", "demo", "--root", tree, env=env, cwd=workshop.hook)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "an image without data: left out, this release does not have that fault\n" in done.stdout
    assert done.stdout.rstrip().endswith("the faults are gone")


def test_the_demo_can_fail(workshop):
    """Against a tree that its overlays do not know, patched dies as stock does, and the demo says so."""
    done = run_demo("--root", str(workshop.trees["v0.30.0"]))
    assert done.returncode == 1
    assert "NOT as expected" in done.stdout
