"""Pythons that this machine has no native build of: CPython 3.14 and 3.15 as WebAssembly (the npm package pyodide)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyodide_probe
import pytest
from conftest import CHECKOUT, RUNNER, UTILS, clean_environment
from pyodide_texts import (
    AFTER_GRAFT,
    ANNOTATED,
    GENERIC,
    METADATA,
    NAMES,
    OVERLAY,
    STRINGS,
    a_site,
    write_metadata,
    write_standin,
)

from gaudi_shadow import catalog
from gaudi_shadow.demo.workshop import adopt, copy_package

VARIABLE = "GAUDI_SHADOW_PYODIDE"
FOLDERS = [Path(entry) for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
NEEDS_NODE = "needs Node.js 18 or later: node is not on PATH"
NEEDS_PYODIDE = (
    f"needs {VARIABLE}: one or more folders that hold node_modules/pyodide, with {os.pathsep!r} between; "
    "'npm install --prefix DIR pyodide@314' brings Python 3.14, 'pyodide@315.0.0-alpha.2' Python 3.15"
)
OURS_AT_START = ["gaudi_shadow", "gaudi_shadow.finder"]
OURS_BY_START_FILE = [*OURS_AT_START, "gaudi_shadow.startup"]

Call = tuple[str, dict[str, Any]]
Pyodide = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module", params=FOLDERS or [Path()], ids=lambda folder: folder.name or "none")
def pyodide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pyodide:
    """Start one of those Pythons and make some calls of pyodide_probe in it.

    It answers with `results`, one for each call, and `stdout` and `stderr`, the lines printed from the start on.
    """
    missing = [*([] if shutil.which("node") else [NEEDS_NODE]), *([] if FOLDERS else [NEEDS_PYODIDE])]
    if missing:
        pytest.skip("; ".join(missing))
    package = request.param / "node_modules" / "pyodide"
    assert package.is_dir(), f"{package} is not there; {NEEDS_PYODIDE}"

    def start(*calls: Call, mounts: dict[str, Path] | None = None, **spec: Any) -> dict[str, Any]:
        file = tmp_path_factory.mktemp("spec") / "spec.json"
        folders = {f"/{name}": os.path.realpath(folder) for name, folder in (mounts or {}).items()}
        file.write_text(json.dumps({"pyodide": str(package), "mounts": folders, "calls": calls, **spec}), "utf-8")
        done = subprocess.run(
            ["node", str(Path(__file__).with_name("pyodide_runner.mjs")), str(file)],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return start


def reads_start_files(start: dict[str, Any]) -> bool:
    """Whether the Python of a `start` answer knows PEP 829 (and PEP 810's lazy imports): 3.15 and later."""
    return tuple(start["version"]) >= (3, 15)


RELEASE_CALLS: list[Call] = [("start", {}), ("import_release", {})]


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A spec with a stand-in release and a copy of ours that accepts it, on PYTHONPATH as a user would have them."""
    folder = tmp_path_factory.mktemp("standin")
    hook, tree = copy_package(folder / "hook"), write_standin(folder / "tree")
    adopt(hook / "gaudi_shadow" / "overlays", "v0.30.0", tree)
    env = {"PYTHONPATH": "/hook:/tree", "VLLM_HPU_MM_ENCODER_MAX_PATCHES": "10"}
    return {"mounts": {"hook": hook, "tree": tree}, "env": env}


@pytest.fixture(scope="module")
def release(pyodide: Pyodide, standin: dict[str, Any]) -> dict[str, Any]:
    """The stand-in release, imported and used in a new interpreter."""
    return pyodide(*RELEASE_CALLS, **standin)


def test_sitecustomize_brings_the_hook_and_nothing_else(release: dict[str, Any]) -> None:
    start = release["results"][0]
    assert start["routes"] == ["sitecustomize"]
    assert start["ours"] == OURS_AT_START
    assert (release["stdout"], release["stderr"]) == ([], [])


def test_modules_that_need_pep_649_are_patched(release: dict[str, Any]) -> None:
    report = release["results"][1]
    assert report["states"] == {UTILS: "patched", RUNNER: "patched"}
    assert (report["release"], report["route"], report["loader"]) == ("0.30.0", "sitecustomize", "SourceFileLoader")
    assert report["alias is patched"]
    assert report["in place"]
    assert report["files"] == [
        "/hook/gaudi_shadow/overlays/v0.26.0/vllm_gaudi/models/utils.py",
        "/tree/vllm_gaudi/models/utils.py",
    ]
    assert report["calls"] == [[3, 3, 4], [20], [1, 9]]
    assert report["cached"] == ["h0", "h1", "h2", "h4", "h5", "h6"]


def test_lazy_imports_change_nothing(pyodide: Pyodide, standin: dict[str, Any], release: dict[str, Any]) -> None:
    if not reads_start_files(release["results"][0]):
        pytest.skip("this Python has no lazy imports (PEP 810 is 3.15's)")
    assert pyodide(("start", {}), ("import_release", {"lazily": True}), **standin) == release


def test_the_pth_installs_the_finder_and_costs_three_modules(pyodide: Pyodide, tmp_path: Path) -> None:
    without = pyodide(("start", {}), site=str(a_site(tmp_path / "without")))
    answer = pyodide(("start", {}), site=str(a_site(tmp_path / "site", "gaudi_shadow.pth")))
    start = answer["results"][0]
    assert start["routes"] == ["pth"]
    assert set(start["modules_at_site"]) - set(without["results"][0]["modules_at_site"]) == set(OURS_AT_START)
    assert (answer["stdout"], answer["stderr"]) == ([], [])


def test_the_pth_and_the_start_file_together_install_one_finder(pyodide: Pyodide, tmp_path: Path) -> None:
    site = a_site(tmp_path / "site", "gaudi_shadow.pth", "gaudi_shadow.start")
    again = ("add_site_folder", {"folder": "/again", "times": 2})
    answer = pyodide(("start", {}), again, site=str(site), mounts={"again": site})
    start = answer["results"][0]
    assert start["routes"] == answer["results"][1]["routes"] == (["start"] if reads_start_files(start) else ["pth"])
    assert start["ours"] == (OURS_BY_START_FILE if reads_start_files(start) else OURS_AT_START)
    assert answer["stdout"] == answer["stderr"] == answer["results"][1]["stderr"] == []
    # What it costs to resolve `package.module:function`: pkgutil, and re and importlib.util with it.
    assert ("pkgutil" in start["modules_at_site"]) == reads_start_files(start)


def test_the_switch_keeps_the_finder_out_on_every_route(pyodide: Pyodide, tmp_path: Path) -> None:
    site = a_site(tmp_path / "site", "gaudi_shadow.pth", "gaudi_shadow.start")
    (site / "sitecustomize.py").unlink()
    hook = copy_package(tmp_path / "hook")
    env = {"VLLM_GAUDI_SHADOW": "off", "PYTHONPATH": "/hook"}
    answer = pyodide(("start", {}), site=str(site), env=env, mounts={"hook": hook})
    start = answer["results"][0]
    assert start["routes"] == answer["stderr"] == []
    # A .start file only names a function: Python imports it before our switch can be asked.
    assert start["ours"] == (OURS_BY_START_FILE if reads_start_files(start) else [])


def test_a_pth_without_its_package_is_silent_and_a_later_site_folder_still_works(
    pyodide: Pyodide, tmp_path: Path
) -> None:
    left_over = a_site(tmp_path / "left-over", "gaudi_shadow.pth", package=False)
    later = a_site(tmp_path / "later", "gaudi_shadow.pth")
    add = ("add_site_folder", {"folder": "/later", "times": 2})
    answer = pyodide(("start", {}), add, site=str(left_over), mounts={"later": later})
    start, added = answer["results"]
    assert start["routes"] == start["ours"] == answer["stderr"] == []
    assert (added["routes"], added["stderr"]) == (["pth"], [])


def test_what_python_does_with_a_start_file_whose_package_is_gone(pyodide: Pyodide, tmp_path: Path) -> None:
    """A fact about PEP 829 that docs/python-versions.md states: nothing in a .start file can guard against it."""
    gone = {"gone.start": "gone.startup:install\n", "gone.pth": "import sys; sys.pth_line_ran = True\n"}
    answer = pyodide(("start", {}), site=str(a_site(tmp_path / "site", package=False, extra=gone)))
    start, stderr = answer["results"][0], answer["stderr"]
    assert start["pth_line_ran"] != reads_start_files(start)
    assert bool(stderr) == reads_start_files(start)
    if stderr:
        assert stderr[0].startswith("Error resolving entry point gone.startup:install")
        assert stderr[-1].strip() == "ModuleNotFoundError: No module named 'gone'"


@pytest.fixture(scope="module")
def answers(pyodide: Pyodide, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one interpreter says to many questions about texts and trees; none of them changes it."""
    folder = tmp_path_factory.mktemp("trees")
    for kind, text in METADATA.items():
        write_metadata(folder / kind, text)
    strings = {f"f: {kind}": text.replace('t"', 'f"').replace("t'''", "f'''") for kind, text in STRINGS.items()}
    strings |= {f"t: {kind}": text for kind, text in STRINGS.items()}
    expressions = list(AFTER_GRAFT)
    overlay = {"overlay": OVERLAY, "qualnames": ["Runner.method", "function"], "expressions": expressions}
    calls: dict[str, Call] = {
        "annotated": ("judge", {"source": ANNOTATED, "qualnames": [*NAMES, "Runner.__annotate__"]}),
        "generic": ("judge", {"source": GENERIC, "qualnames": ["Holder.method", "generic"]}),
        "grafted": ("grafted", {"source": ANNOTATED, **overlay}),
        **{kind: ("canonical_and_meaning", {"source": source}) for kind, source in strings.items()},
        **{f"metadata {kind}": ("release_version", {"root": f"/trees/{kind}"}) for kind in METADATA},
    }
    mounts = {"hook": CHECKOUT, "trees": folder}
    root = os.environ.get("GAUDI_FIXES_ROOT")
    if root:
        mounts["release"] = Path(root)
        calls["targets"] = ("read_targets", {"root": "/release"})
        calls["fingerprints"] = ("every_fingerprint", {"root": "/release"})
    results = pyodide(*calls.values(), mounts=mounts, env={"PYTHONPATH": "/hook"})["results"]
    return dict(zip(calls, results, strict=True))


def test_annotations_take_no_part_in_finding_a_function(answers: dict[str, Any]) -> None:
    here = pyodide_probe.judge(ANNOTATED, NAMES)
    assert {name: answers["annotated"][name] for name in NAMES} == here
    assert all(verdict.startswith("sha256:") for verdicts in here.values() for verdict in verdicts)


def test_the_functions_that_the_compiler_makes_of_annotations_are_never_taken_for_one_of_ours(
    answers: dict[str, Any],
) -> None:
    for verdict in answers["annotated"]["Runner.__annotate__"]:
        assert verdict.startswith(("CannotGraft: the module defines", "UnreadableBlock: "))


def test_a_graft_leaves_annotations_defaults_and_private_names_as_they_were(answers: dict[str, Any]) -> None:
    assert answers["grafted"] == AFTER_GRAFT


def test_generic_functions_are_refused_and_not_misread(answers: dict[str, Any]) -> None:
    """PEP 695 wraps them in a function of the compiler's own, which no qualified name finds."""
    for name, verdicts in answers["generic"].items():
        assert verdicts == [f"CannotGraft: the module defines no {name}, where one is expected"] * 2


@pytest.mark.parametrize("kind", [f"{letter}: {kind}" for letter in "ft" for kind in STRINGS])
def test_the_canonical_text_of_a_string_means_the_same(answers: dict[str, Any], kind: str) -> None:
    assert answers[kind]["same"], answers[kind]["text"]
    assert "comment" not in answers[kind]["text"]


@pytest.mark.parametrize("kind", METADATA)
def test_metadata_without_a_version_is_no_fault(answers: dict[str, Any], kind: str) -> None:
    assert answers[f"metadata {kind}"] == ("0.30.0" if kind == "with" else "unknown")


@pytest.mark.parametrize("kind", METADATA)
def test_metadata_without_a_version_is_no_fault_in_this_python(tmp_path: Path, kind: str) -> None:
    tree = write_metadata(tmp_path / kind, METADATA[kind])
    assert pyodide_probe.release_version(str(tree)) == ("0.30.0" if kind == "with" else "unknown")


def test_the_real_functions_are_judged_as_here(answers: dict[str, Any], release_root: Path) -> None:
    here = pyodide_probe.read_targets(str(release_root))
    assert answers["targets"] == here
    for entry in here.values():
        for fix, state in entry["states"].items():
            accepted = catalog.overlay(entry["overlay"]).fixes[fix].fingerprints if state == "applied" else ()
            assert (entry["fingerprints"][fix] in accepted) == (state == "applied")


def test_every_function_of_a_real_release_has_the_fingerprint_that_it_has_here(
    answers: dict[str, Any], release_root: Path
) -> None:
    here = pyodide_probe.every_fingerprint(str(release_root))
    assert len(here) > len(NAMES)
    assert answers["fingerprints"] == here, f"compared with Python {sys.version}"
