"""What the report of `check` says, and what it says when our own parts are damaged."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
from command_line import APPLIED, BUDGET, COVERED, MERGE, check, fixes_in, gaudi_shadow, states_in
from conftest import CHECKOUT, Workshop


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "mm-merge"], f"the fixes are {', '.join(sorted(APPLIED['v0.30.0']))}"),
        (["status", "mm-merge"], "no fix is called mm-merge"),
        (["check", "--root", "no-such-folder"], "no-such-folder"),
        (
            ["check", "--rot", "DIR"],
            "gaudi-shadow check: unrecognized arguments: --rot DIR; see 'gaudi-shadow check --h",
        ),
        (["check", "--rot", "--json"], "gaudi-shadow check: unrecognized arguments: --rot; "),
        (["run", "--rot", "--", "true"], "gaudi-shadow run: unrecognized arguments: --rot; see 'gaudi-shadow run --h"),
        (["--rot"], "gaudi-shadow: "),
        (["no-such-command"], "no-such-command"),
        ([], "COMMAND"),
    ],
)
def test_what_cannot_be_asked_exits_64(workshop: Workshop, arguments: list[str], words: str) -> None:
    done = gaudi_shadow(workshop.hook, *arguments, env=workshop.environment("v0.26.0"))
    assert (done.returncode, done.stdout) == (64, "")
    (line,) = done.stderr.splitlines()
    assert words in line


@pytest.mark.parametrize(
    ("file", "text", "states"),
    [
        ("overlays/v0.26.0/vllm_gaudi/models/utils.py", "def", {MERGE: "not applied"}),
        ("fixes/mm_encoder_budget.py", "def", {BUDGET: "not applied"}),
        ("overlays/v0.30.0/manifest.json", "{", {}),
    ],
)
def test_a_broken_part_of_ours_spoils_its_own_fixes(
    own_workshop: Workshop, file: str, text: str, states: dict[str, str]
) -> None:
    (own_workshop.hook / "gaudi_shadow" / file).write_text(text)
    report = check(own_workshop, "v0.26.0")
    known = {name: state for name, state in APPLIED["v0.26.0"].items() if name in states_in(report)}
    assert states_in(report) == known | states
    assert report["exit_code"] == (1 if states else 0)


def test_a_fix_whose_manifest_is_broken_is_not_applied_and_no_typo(own_workshop: Workshop) -> None:
    (own_workshop.hook / "gaudi_shadow/overlays/v0.30.0/manifest.json").write_text("{")
    report = check(own_workshop, "v0.26.0", COVERED)
    assert (report["exit_code"], states_in(report)) == (1, {COVERED: "not applied"})
    assert "overlays/v0.30.0/manifest.json: not JSON" in fixes_in(report)[COVERED]["reason"]


def test_without_any_manifest_every_fix_is_not_applied(own_workshop: Workshop) -> None:
    shutil.rmtree(own_workshop.hook / "gaudi_shadow/overlays")
    for arguments in ([], [MERGE]):
        report = check(own_workshop, "v0.26.0", *arguments)
        assert report["exit_code"] == 1
        assert "overlays" in report["fixes"][0]["reason"]


def test_a_damaged_package_is_not_applied(own_workshop: Workshop) -> None:
    (own_workshop.hook / "gaudi_shadow/release.py").write_text("def")
    report = check(own_workshop, "v0.26.0")
    assert report["exit_code"] == 1
    assert "SyntaxError" in report["fixes"][0]["reason"]


def test_a_part_of_the_command_that_is_missing_is_to_be_reinstalled(own_workshop: Workshop) -> None:
    shutil.rmtree(own_workshop.hook / "gaudi_shadow/inspection")
    done = gaudi_shadow(own_workshop.hook, "check", env=own_workshop.environment("v0.26.0"))
    assert (done.returncode, done.stdout) == (64, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("No module named 'gaudi_shadow.inspection'; reinstall gaudi-shadow")


def test_the_text_report_is_aligned_and_complete(workshop: Workshop) -> None:
    done = gaudi_shadow(workshop.hook, "check", env=workshop.environment("v0.30.0"))
    head, *fixes, last = done.stdout.rstrip("\n").split("\n\n")
    columns = {re.match(r"\S+(?: \S+)?  +", line).end() for line in head.splitlines()}
    assert len(columns) == 1
    first_lines = [block.splitlines()[0] for block in fixes]
    assert sorted(first_lines) == sorted(f"{name}: {state}" for name, state in APPLIED["v0.30.0"].items())
    assert last == "exit code 0: each fix is applied or not needed"
    for words in (
        f"{sys.version_info[0]}.{sys.version_info[1]}.",
        "by sitecustomize",
        "0.30.0 (read from its metadata)",
        "unconfirmed",
    ):
        assert words in head


def test_the_reference_names_every_field_of_the_json_report(workshop: Workshop) -> None:
    report = check(workshop, "v0.26.0")
    fields = {*report, *report["python"], *report["hook"], *report["release"], *report["fixes"][0]}
    reference = (CHECKOUT / "docs" / "cli.md").read_text("utf-8")
    assert {field for field in fields if f"`{field}`" not in reference} == set()
