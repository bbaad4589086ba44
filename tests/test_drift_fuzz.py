"""The drift fuzz of bench/, a few hundred mutants of the stand-ins: nothing is wrong; and it sees what would be."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from adversity.light import change
from conftest import CHECKOUT, bare_python, run_python
from drift_target import FUNCTIONS

from gaudi_shadow.demo.workshop import copy_package

SEED = "20261130"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the test's own, with the fuzz and the package."""
    shutil.copytree(CHECKOUT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    return copy_package(tmp_path)


def fuzz(checkout: Path, *arguments: str | Path) -> tuple[int, dict[str, int], str]:
    """Its exit code, its counts and all that it printed."""
    done = run_python(checkout / "bench" / "drift_fuzz.py", "--seed", SEED, *arguments, python=bare_python())
    last = done.stdout.splitlines()[-2:]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z ]+)", "\n".join(last))}
    return done.returncode, counts, done.stdout + done.stderr


def test_no_mutant_of_a_stand_in_is_misapplied() -> None:
    code, counts, printed = fuzz(CHECKOUT, "--count", "400")
    print(printed)
    assert code == 0, printed
    assert counts.pop("mutants") == 400
    assert counts.pop("applied") > 80 and counts.pop("stock") > 150 and counts.pop("not importable") > 40
    assert counts == dict.fromkeys(("misapplied", "half patched", "crashed", "not refused", "missed", "noise"), 0)


# What is broken on purpose: (file, text, what takes its place), and what the fuzz has to call it.
LOADER, DECIDE = "loader.py", "decide.py"
SABOTAGE = {
    "no fingerprint": ([(DECIDE, "if function.fingerprint not in fix.fingerprints:", "if False:")], "misapplied"),
    "no look at what is in place": ([(LOADER, "        if replaced:\n", "        if False:\n")], "misapplied"),
    "no undoing": (
        [(LOADER, "            self._undo(decision)\n            reason", "            reason")],
        "half patched",
    ),
    "an error of ours gets through": (
        [
            (DECIDE, "    version = release_at", "    assert 0\n    version = release_at"),
            (LOADER, "return record.internal_fault(self.spec, error)", "raise"),
            (LOADER, "            return stay_out(self.spec.name, error, effect)", "            raise"),
        ],
        "crashed",
    ),
    "strict means nothing": ([("finder.py", "strip().lower() in ON_WORDS", "strip().lower() in ()")], "not refused"),
    "comments count": ([("fingerprint.py", "comment_columns[token.start[0]] = token.start[1]", "pass")], "missed"),
    "a refusal in several lines": (
        [
            ("messages.py", "+ one_line(text)", "+ text.replace(' stays', chr(10))"),
            ("messages.py", "line = printable(text)", "line = text"),
        ],
        "noise",
    ),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_the_fuzz_sees_what_would_be_wrong(checkout: Path, name: str) -> None:
    changes, seen = SABOTAGE[name]
    for file, old, new in changes:
        change(checkout / "gaudi_shadow" / file, old, new)
    code, counts, printed = fuzz(checkout, "--count", "90", "--module", "vllm_gaudi.models.utils")
    assert code == 1, printed
    assert counts[seen] > 0, printed


def test_it_mutates_the_functions_that_the_manifests_name() -> None:
    named = set()
    for manifest in (CHECKOUT / "overlays").glob("*/manifest.json"):
        for fix in json.loads(manifest.read_text("utf-8"))["fixes"].values():
            if "module" in fix:
                named.add((fix["module"], fix["function"]))
    assert named == set(FUNCTIONS.items())


def test_no_mutant_of_a_real_release_is_misapplied(release_root: Path) -> None:
    for module, count in (("vllm_gaudi.models.utils", "300"), ("vllm_gaudi.v1.worker.hpu_model_runner", "60")):
        code, _, printed = fuzz(CHECKOUT, "--root", release_root, "--count", count, "--module", module)
        assert code == 0, printed
