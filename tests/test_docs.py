"""The pages cannot drift: command reference, manifest fields, releases, links, and the commands that they show.

test_overlays.py holds the fix pages against the manifests.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
from pathlib import Path

import pytest
from command_line import gaudi_shadow
from conftest import CHECKOUT, Workshop
from pages import PAGES, Shown, anchors, parts, sections, table_rows, to_be_parsed, to_be_run

from gaudi_shadow import catalog, cli, counters
from gaudi_shadow.maintaining.known_releases import STATES, known_releases
from gaudi_shadow.manifest import Fix
from gaudi_shadow.vllm_environ import NAMES

DOCS = CHECKOUT / "docs"
FIXES = catalog.known_fixes()
SHOWN = [
    shown for page in PAGES for fence in parts(page)[0] if fence.language == "console" for shown in to_be_run(fence)
]
PARSED = [each for page in PAGES for each in to_be_parsed(page)]
# Pages that others write while this test is there already; the test below makes the list shrink.
NOT_WRITTEN_YET: set[str] = set()
NOT_DESCRIBED_YET: set[str] = set()


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = cli.build_parser()
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {name: each for each in parser._actions for name in each.option_strings if name not in ("-h", "--help")}


def test_what_is_not_written_yet_is_not_there() -> None:
    written = [page for page in sorted(NOT_WRITTEN_YET) if (CHECKOUT / page).exists()]
    assert not written, "take them out of NOT_WRITTEN_YET"
    assert not set(sections(DOCS / "cli.md")) & NOT_DESCRIBED_YET, "take them out of NOT_DESCRIBED_YET"


def test_the_reference_has_every_command_and_no_other() -> None:
    assert set(sections(DOCS / "cli.md")) == set(commands()) - NOT_DESCRIBED_YET


@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - NOT_DESCRIBED_YET))
def test_the_reference_has_every_option_and_no_other(name: str) -> None:
    section, parser = sections(DOCS / "cli.md")[name], commands()[name]
    assert section.lstrip().startswith(f"`gaudi-shadow {name}"), "the section begins with how the command is called"
    synopsis = re.match(r"\s*`([^`]+)`", section)
    assert synopsis is not None
    for option, action in options(parser).items():
        called = option if action.nargs == 0 else f"{option} {action.metavar or '|'.join(map(str, action.choices))}"
        assert called in section, f"{called} is missing"
        if action.required:
            assert f" {called}" in synopsis[1] and f"[{called}]" not in synopsis[1]
    for positional in (each for each in parser._actions if not each.option_strings):
        assert str(positional.metavar) in synopsis[1]
    spans = [span for span in re.findall(r"`([^`]+)`", section) if not span.startswith(("vllm ", "pip ", "git "))]
    named = {option for span in spans for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert named <= set(options(parser))


def test_the_help_of_a_command_is_written() -> None:
    for name in set(commands()) - NOT_DESCRIBED_YET:
        assert "not written" not in str(commands()[name].description), name


def test_the_readme_lists_the_fixes() -> None:
    rows = [row for row in table_rows((CHECKOUT / "README.md").read_text("utf-8")) if row[0].startswith("[mm-")]
    assert {row[0].partition("]")[0][1:]: row[2].split(", ") for row in rows} == {
        name: [release for release in sorted(catalog.overlay_names()) if name in catalog.overlay(release).fixes]
        for name in FIXES
    }


def test_the_manifest_fields_are_on_the_page() -> None:
    section = sections(DOCS / "adding-a-fix.md")["6. The manifest entry"]
    rows = [row[0] for row in table_rows(section) if row[0].startswith("`")]
    named = [field for cell in rows for field in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(set(Fix._fields) - {"name"})
    for field in ("release", "base", "verified", "note", "fixes"):
        assert f"`{field}`" in section


def test_the_counters_are_on_the_page() -> None:
    rows = [row[0] for row in table_rows(sections(DOCS / "how-it-works.md")["Seeing it at work"])]
    assert rows[2:] == [f"`{name}`" for name in counters.counts]


def test_the_releases_on_the_page_are_those_that_are_known() -> None:
    rows = {row[0]: row[1:] for row in table_rows((DOCS / "releases.md").read_text("utf-8")) if row[0] in STATES}
    assert {state: cells[0] for state, cells in rows.items()} == STATES
    for state, (_, cell) in rows.items():
        names = [each.release for each in reversed(known_releases()) if each.state == state]
        shown = f"{names[0]} to {names[-2]}, and {names[-1]}" if len(names) > 9 else ", ".join(names)
        if state == "accepted":
            assert cell == shown
        else:
            assert sorted(cell.split(", ")) == sorted(names)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.place} {' '.join(shown.arguments)}")
def test_a_shown_command_runs(workshop: Workshop, shown: Shown) -> None:
    """In the folder of the stand-in for v0.26.0, with the hook active; the output that is shown must come, in order."""
    done = gaudi_shadow(
        workshop.hook, *shown.arguments, env=workshop.environment("v0.26.0"), cwd=workshop.trees["v0.26.0"]
    )
    assert done.returncode == shown.exit_code, done.stderr
    lines = iter((done.stdout + done.stderr).splitlines())
    for expected in (line for line in shown.output if line.strip() not in ("", "...")):
        assert expected in lines, f"{shown.place} shows a line that does not come: {expected}"


@pytest.mark.parametrize(("place", "arguments"), PARSED, ids=lambda each: each if isinstance(each, str) else "")
def test_a_command_that_is_not_run_could_be_called_so(place: str, arguments: list[str]) -> None:
    assert complaint_about(arguments) == "", place


def complaint_about(arguments: list[str]) -> str:
    """What the parser says against a command line; empty when it can be called so."""
    written = io.StringIO()
    with contextlib.redirect_stderr(written), contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.build_parser().parse_args(arguments)
        except SystemExit as ended:
            return written.getvalue() if ended.code else ""
    return ""


def test_a_wrong_command_line_would_be_seen() -> None:
    assert "unrecognized arguments: --rooot" in complaint_about(["check", "--rooot", "."])


def test_commands_were_found() -> None:
    assert len(SHOWN) > 1 and len(PARSED) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", parts(page)[1]):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        relative = there.relative_to(CHECKOUT).as_posix()
        assert there.exists() or relative in NOT_WRITTEN_YET, f"{page.name} links to {target}"
        assert not anchor or not there.exists() or anchor in anchors(there), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_a_page_names_only_files_and_variables_that_there_are(page: Path) -> None:
    text = page.read_text("utf-8")
    for variable in re.findall(r"\bVLLM_(?:GAUDI_SHADOW|HPU_MM)\w*", text):
        assert variable in NAMES
    ours = r"`((?:gaudi_shadow|overlays|tests|bench|docs)/[\w./-]+\.(?:py|md|json))`"
    for file in re.findall(ours, parts(page)[1]):
        is_example = "mm_example" in file or "mm-example" in file
        assert is_example or file in NOT_WRITTEN_YET or (CHECKOUT / file).exists(), f"{page.name} names {file}"


def test_no_page_or_file_has_a_path_of_our_machines() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("needs git and a clone: only tracked files count")
    folders = "|".join(["work", "root"])
    machine = re.compile(rf"(?<![\w.~$}}>-])/(?:{folders})/[\w.]")
    registry = re.compile("|".join(re.escape(name) for name in ("pypi" + ".org", "pythonhosted" + ".org")))
    for name in tracked.stdout.splitlines():
        path = CHECKOUT / name
        if path.is_file() and not path.is_symlink():
            for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
                assert not machine.search(line), f"{name}:{number} has a path of a machine: {line.strip()}"
                assert not registry.search(line), f"{name}:{number} names a package registry"
