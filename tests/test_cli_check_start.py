"""`check` under everything that can go on while an interpreter starts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    APPLIED,
    MERGE,
    checked,
    fixes_in,
    gaudi_shadow,
    hidden_sitecustomize,
    on_path,
    states_in,
)
from conftest import Workshop

from gaudi_shadow.inspection import asking

BYPASS = """
import sys
from importlib.machinery import PathFinder


class Bypass(PathFinder):
    pass


sys.meta_path.insert(0, Bypass)
"""

# As ddtrace's module watchdog does it.
PASS_ON = """
import sys


class PassOn:
    busy = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if cls.busy:
            return None
        cls.busy = True
        try:
            answers = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not cls)
            return next(filter(None, answers), None)
        finally:
            cls.busy = False


sys.meta_path.insert(0, PassOn)
"""

TOO_LATE = """
import sys
import types

sys.modules["vllm_gaudi.models.utils"] = types.ModuleType("vllm_gaudi.models.utils")
sys.path.insert(0, {hook!r})
from gaudi_shadow.startup import install

install("mine")
"""

IN_THE_NEW_INTERPRETER = """
import sys

if "probe.py" in str(sys.orig_argv):
    print("on stdout", flush=True)
    print("on stderr", file=sys.stderr)
    {end}
"""


def check_beside(workshop: Workshop, users: Path, text: str) -> dict[str, Any]:
    """The report where our sitecustomize runs a user's, which it hides."""
    hidden = hidden_sitecustomize(users, text)
    return checked(workshop.hook, env=on_path(workshop.hook, hidden, workshop.trees["v0.26.0"]))


def test_what_a_sitecustomize_prints_is_kept_apart_and_shown(workshop: Workshop, tmp_path: Path) -> None:
    report = check_beside(workshop, tmp_path, IN_THE_NEW_INTERPRETER.format(end=""))
    assert report["exit_code"] == 0
    assert report["printed"] == ["on stdout", "on stderr"]


@pytest.mark.parametrize("end", ["raise SystemExit('no licence')", "__import__('os')._exit(1)"])
def test_an_interpreter_that_does_not_start_is_not_applied(workshop: Workshop, tmp_path: Path, end: str) -> None:
    report = check_beside(workshop, tmp_path, IN_THE_NEW_INTERPRETER.format(end=end))
    assert report["exit_code"] == 1
    assert set(states_in(report)) == set(APPLIED["v0.26.0"])
    last = "no licence" if "licence" in end else "on stderr"
    assert re.search(f"it ended with code 1 before it answered: .*{last}$", fixes_in(report)[MERGE]["reason"])


def test_a_finder_that_answers_before_ours_is_named(workshop: Workshop, tmp_path: Path) -> None:
    report = check_beside(workshop, tmp_path, BYPASS)
    assert states_in(report)[MERGE] == "not applied"
    assert fixes_in(report)[MERGE]["reason"] == "the finder sitecustomize.Bypass answers before ours"


def test_a_finder_that_asks_ours_is_no_obstacle(workshop: Workshop, tmp_path: Path) -> None:
    assert states_in(check_beside(workshop, tmp_path, PASS_ON)) == APPLIED["v0.26.0"]


def test_a_finder_that_was_taken_away_is_missed(workshop: Workshop, tmp_path: Path) -> None:
    report = check_beside(workshop, tmp_path, "import sys\ndel sys.meta_path[0]\n")
    assert (report["exit_code"], report["hook"]["active"]) == (1, False)
    assert "its finder is not on sys.meta_path" in report["hook"]["reason"]


def test_a_sitecustomize_that_hides_ours_is_named(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path, "")
    report = checked(workshop.hook, env=on_path(users, workshop.hook, workshop.trees["v0.26.0"]))
    assert report["hook"]["reason"].startswith(f"{users}/sitecustomize.py comes before our sitecustomize.py")
    assert report["hook"]["todo"] == f"put {workshop.hook} first in PYTHONPATH"


def test_a_target_imported_before_the_hook_is_too_late(workshop: Workshop, tmp_path: Path) -> None:
    users = hidden_sitecustomize(tmp_path, TOO_LATE.format(hook=str(workshop.hook)))
    environment = on_path(users, workshop.trees["v0.26.0"])
    done = gaudi_shadow(workshop.hook, "check", "--json", env=environment)
    assert "imported before the hook" in done.stderr  # the command's own interpreter starts in the same way
    report = json.loads(done.stdout)
    assert states_in(report) == APPLIED["v0.26.0"] | {MERGE: "not applied"}
    assert "imported before the hook" in fixes_in(report)[MERGE]["reason"]
    assert report["hook"]["route"] == "mine"


def test_an_interrupt_ends_it_quietly(workshop: Workshop, tmp_path: Path) -> None:
    end = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(20)"
    users = hidden_sitecustomize(tmp_path, IN_THE_NEW_INTERPRETER.format(end=end))
    done = gaudi_shadow(workshop.hook, "check", env=on_path(workshop.hook, users))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interpreter_that_never_answers_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck.py"
    stuck.write_text("print('waiting for a network disk', flush=True)\nimport time; time.sleep(600)\n")
    monkeypatch.setattr(asking, "PROBE", str(stuck))
    monkeypatch.setattr(asking, "PATIENCE", 5)
    found = asking.findings()
    assert {entry["state"] for entry in found["fixes"]} == {"not applied"}
    assert "it was stopped after 5 seconds before it answered: waiting" in found["hook"]["reason"]
