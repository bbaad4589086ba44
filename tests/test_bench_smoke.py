"""Every bench runs at a tiny size and gives the fields that the pictures and the page are made of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT, clean_environment

BENCH = CHECKOUT / "bench"
ALWAYS = ("startup_time", "scale")
REAL = ("encoder_memory", "merge_time", "throughput", "import_time")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run_bench(name: str, results: Path, *options: str | Path) -> dict:
    done = subprocess.run(
        [sys.executable, BENCH / f"{name}.py", *options, "--results", results],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((results / f"{name}.json").read_text("utf-8"))


def assert_drawn(name: str, results: Path, tmp_path: Path) -> None:
    """The picture and the table can be made of the result."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- {name} -->\nwhat stood here\n<!-- /{name} -->\nafter\n", "utf-8")
    for script, options in (("figures", ("--pictures", tmp_path)), ("page", ("--page", page))):
        subprocess.run([sys.executable, BENCH / f"{script}.py", "--results", results, *options], check=True)
    picture = (tmp_path / f"{name.replace('_', '-')}.svg").read_text("utf-8")
    assert picture.startswith("<svg ") and "nan" not in picture
    text = page.read_text("utf-8")
    assert "what stood here" not in text and re.fullmatch(r"(?s)before\n<!-- .*\| --- \|.*-->\nafter\n", text)


def the_same_fields(found: object, kept: object, where: str) -> None:
    """A small run gives the fields of the result in the repo; of lists and of rows by size, the first counts."""
    if isinstance(kept, dict) and isinstance(found, dict) and not where.endswith((".rows", ".ms", "at_fill")):
        assert set(found) == set(kept), where
        for name, value in kept.items():
            the_same_fields(found[name], value, f"{where}.{name}")
    elif isinstance(kept, list | dict) and kept:
        ours, theirs = (list(each.values()) if isinstance(each, dict) else each for each in (found, kept))
        the_same_fields(ours[0], theirs[0], where + "[0]")
    else:
        assert kept is None or type(found) is type(kept) or {type(found), type(kept)} <= {int, float}, where


def check(name: str, tmp_path: Path, *options: str | Path) -> dict:
    results = tmp_path / "results"
    found = run_bench(name, results, "--small", *options)
    the_same_fields(found, json.loads((BENCH / "results" / f"{name}.json").read_text("utf-8")), name)
    assert_drawn(name, results, tmp_path)
    return found


@pytest.mark.parametrize("name", ALWAYS)
def test_a_bench_that_needs_no_release(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.parametrize("name", REAL)
def test_a_bench_of_a_real_release(name: str, tmp_path: Path, release_root: Path) -> None:
    python = os.environ.get("GAUDI_REAL_PYTHON")
    if not python:
        pytest.skip("needs GAUDI_REAL_PYTHON: a Python with the release's vLLM (see tests/real)")
    found = check(name, tmp_path, "--root", release_root, "--python", python, "--work", tmp_path / "work")
    assert all(found[each] for each in ("outputs_equal", "bits_equal", "tokens_equal") if each in found)


def test_without_a_release_a_bench_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, BENCH / "merge_time.py", "--results", tmp_path]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "GAUDI_FIXES_ROOT" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_the_page_and_the_pictures_are_those_of_the_results(tmp_path: Path) -> None:
    subprocess.run([sys.executable, BENCH / "page.py", "--check"], check=True)
    subprocess.run([sys.executable, BENCH / "figures.py", "--pictures", tmp_path], check=True)
    kept = {path.name: path.read_text("utf-8") for path in (CHECKOUT / "docs" / "pictures").glob("*.svg")}
    drawn = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    assert len(drawn) == 6 and {name: kept.get(name) for name in drawn} == drawn
