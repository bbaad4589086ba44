"""Which releases are patched: what the manifests say, what `releases` prints, and builds with odd versions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from command_line import APPLIED, BUDGET, MERGE, checked, fixes_in, gaudi_shadow, on_path, states_in
from conftest import CHECKOUT, RUNNER, UTILS, Workshop, clean_environment, run_python
from packaging.version import Version

from gaudi_shadow import catalog
from gaudi_shadow.demo.standin import write_release
from gaudi_shadow.maintaining.known_releases import STATES, KnownRelease, known_releases
from gaudi_shadow.maintaining.release_tree import ReleaseTree, read_tree
from gaudi_shadow.manifest import BrokenManifest, parse_overlay
from gaudi_shadow.release import by_closeness

TEXTS = [
    (fix, seen)
    for each in map(catalog.overlay, catalog.overlay_names())
    for fix in each.fixes.values()
    for seen in fix.seen
]


def known(name: str) -> KnownRelease:
    return next(each for each in known_releases() if each.release == name)


def states(release: KnownRelease) -> dict[str, str]:
    return {name: fix.state for name, fix in release.fixes.items()}


@pytest.mark.parametrize(
    "name", ["v0.16.0", "v0.17.1", "v0.19.0", "v0.21.0", "v0.24.0", "v0.27.0rc0", "main of 2026-08-21"]
)
def test_accepted_by_fingerprint(name: str) -> None:
    assert known(name).state == "accepted"
    assert states(known(name)) == APPLIED["v0.26.0"]


def test_verified() -> None:
    assert known("v0.26.0").state == "verified"
    assert states(known("v0.26.0")) == APPLIED["v0.26.0"]


def test_the_unread_tag_is_unconfirmed() -> None:
    release = known("v0.30.0")
    assert release.state == "unconfirmed"
    assert "could not be read" in release.note


@pytest.mark.parametrize(
    ("name", "state", "fixes"),
    [
        ("v0.10.1", "refused", {MERGE: "refused", BUDGET: "refused"}),
        ("v0.13.0", "not needed", dict.fromkeys((MERGE, BUDGET), "not needed")),
        ("v0.14.1", "partly refused", {BUDGET: "refused"}),
        ("v0.16.0rc0", "refused", {MERGE: "not needed", BUDGET: "refused"}),
    ],
)
def test_older_functions(name: str, state: str, fixes: dict[str, str]) -> None:
    release = known(name)
    assert (release.state, states(release)) == (state, APPLIED["v0.26.0"] | fixes)


def test_a_refusal_says_why() -> None:
    refused = [fix for each in known_releases() for fix in each.fixes.values() if fix.state == "refused"]
    assert len(refused) > 4
    assert all(len(fix.note.split()) > 4 for fix in refused)


def test_the_manifests_facts_are_well_formed() -> None:
    digest = re.compile(r"sha256:[0-9a-f]{64}")
    for fix, seen in TEXTS:
        assert seen.fingerprint == "missing" or digest.fullmatch(seen.fingerprint)
        for release in seen.releases:
            assert re.fullmatch(r"main of \d{4}-\d\d-\d\d", release) or Version(release.removeprefix("v"))
        others = [release for each in fix.seen if each is not seen for release in each.releases]
        assert not set(others) & set(seen.releases), f"{fix.name}: a release has two texts"
    for each in map(catalog.overlay, catalog.overlay_names()):
        for fix in each.fixes.values():
            assert all(digest.fullmatch(known) for known in (*fix.fingerprints, *fix.fixed_fingerprints))
            assert not set(fix.fingerprints) & set(fix.fixed_fingerprints)
        read = {release for fix in each.fixes.values() for seen in fix.seen for release in seen.releases}
        assert set(each.verified) <= read


def test_the_command_prints_what_is_known(shipped: Path) -> None:
    text = gaudi_shadow(shipped, "releases", env=clean_environment())
    assert (text.returncode, text.stderr) == (0, "")
    lines = text.stdout.splitlines()
    assert lines[0].split() == ["RELEASE", "STATE", *catalog.known_fixes()]
    rows = {line[:18].strip(): line for line in lines[1 : 1 + len(known_releases())]}
    assert set(rows) == {each.release for each in known_releases()}
    assert "verified" in rows["v0.26.0"] and "unconfirmed" in rows["v0.30.0"] and "refused" in rows["v0.15.1"]
    assert any(line.startswith("v0.15.1, v0.14.1: mm-encoder-budget refused: it hands") for line in lines)

    as_json = gaudi_shadow(shipped, "releases", "--json", env=clean_environment())
    releases = {each["release"]: each for each in json.loads(as_json.stdout)}
    assert set(releases) == set(rows)
    assert {each["state"] for each in releases.values()} == set(STATES)
    assert releases["v0.17.1"]["fixes"][MERGE] == {"state": "applied", "overlay": "v0.26.0", "note": ""}


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        ([], "'seen' is not a JSON object"),
        ({"sha256:0": []}, "'seen' of 'sha256:0' must hold 'releases'"),
        ({"sha256:0": {}}, "'seen' of 'sha256:0' must hold 'releases'"),
        ({"sha256:0": {"releases": [1]}}, "'seen' of 'sha256:0' must hold 'releases'"),
        ({"sha256:0": {"releases": [], "note": 1}}, "'seen' of 'sha256:0' must hold 'releases'"),
        ({"sha256:0": {"releases": [], "when": ""}}, "'seen' of 'sha256:0' must hold 'releases'"),
    ],
)
def test_a_wrong_fact_breaks_the_manifest(seen: object, complaint: str) -> None:
    text = (CHECKOUT / "overlays" / "v0.26.0" / "manifest.json").read_text("utf-8")
    manifest = json.loads(text)
    manifest["fixes"][MERGE]["seen"] = seen
    with pytest.raises(BrokenManifest, match=r"overlays/v0.26.0/manifest\.json: fix .mm-merge-idxcopy") as raised:
        parse_overlay("v0.26.0", {"v0.26.0": json.dumps(manifest)})
    assert complaint in str(raised.value)


@pytest.mark.parametrize("verified", ["v0.26.0", [1], None])
def test_verified_is_a_list_of_releases(verified: object) -> None:
    text = json.dumps({"release": "v1", "base": None, "verified": verified, "fixes": {}})
    with pytest.raises(BrokenManifest, match="'verified'"):
        parse_overlay("v1", {"v1": text})


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ("0.26.0", ["v0.26.0", "v0.30.0"]),
        ("0.26.1.dev3+g1234abc", ["v0.26.0", "v0.30.0"]),
        ("0.17.1", ["v0.26.0", "v0.30.0"]),
        ("0.29.0", ["v0.26.0", "v0.30.0"]),
        ("0.30.0rc1", ["v0.26.0", "v0.30.0"]),
        ("0.31.0", ["v0.30.0", "v0.26.0"]),
        ("0.0.0", ["v0.30.0", "v0.26.0"]),
        ("0.1.dev1+gabc", ["v0.30.0", "v0.26.0"]),
        ("unknown", ["v0.30.0", "v0.26.0"]),
    ],
)
def test_the_version_chooses_what_is_tried_first(version: str, order: list[str]) -> None:
    assert by_closeness(version, ["v0.30.0", "v0.26.0"]) == by_closeness(version, ["v0.26.0", "v0.30.0"]) == order


def name_it(tree: Path, version: str) -> None:
    """Give a tree a dist-info."""
    info = tree / "vllm_gaudi-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm-gaudi\nVersion: {version}\n")


def odd_build(folder: Path, release: str, version: str, source: str) -> Path:
    """A stand-in release that calls itself `version`, in its metadata, in a _version.py or nowhere."""
    tree = write_release(folder / "odd", release, metadata=False)
    if source == "metadata":
        name_it(tree, version)
    elif source == "_version.py":
        (tree / "vllm_gaudi" / "_version.py").write_text(f"__version__ = version = '{version}'\n")
    return tree


@pytest.mark.parametrize(
    ("release", "version", "source"),
    [
        ("v0.26.0", "0.26.1.dev3+g1234abc", "metadata"),
        ("v0.26.0", "0.0.0", "metadata"),
        ("v0.26.0", "0.27.0rc0", "_version.py"),
        ("v0.26.0", "unknown", "nowhere"),
        ("v0.30.0", "0.26.1.dev3+g1234abc", "metadata"),
        ("v0.30.0", "0.1.dev1+g1234abc.d20260821", "_version.py"),
        ("v0.30.0", "unknown", "nowhere"),
    ],
)
def test_a_build_with_an_odd_version_is_patched(
    workshop: Workshop, tmp_path: Path, release: str, version: str, source: str
) -> None:
    tree = odd_build(tmp_path, release, version, source)
    report = checked(workshop.hook, "--root", tree, env=on_path(workshop.hook))
    assert report["release"] == {"version": version, "source": source, "root": str(tree)}
    assert states_in(report) == APPLIED[release]
    assert fixes_in(report)[BUDGET]["overlay"] == release


def test_what_check_says_of_an_odd_build_comes_true(workshop: Workshop, tmp_path: Path) -> None:
    tree = odd_build(tmp_path, "v0.26.0", "", "nowhere")
    code = f"import json, {UTILS}, {RUNNER}, gaudi_shadow; print(json.dumps(gaudi_shadow.status()['modules']))"
    done = run_python("-c", code, env=clean_environment(PYTHONPATH=f"{workshop.hook}:{tree}"))
    assert done.stderr == ""
    modules = json.loads(done.stdout)
    assert {name: entry["state"] for name, entry in modules.items()} == {UTILS: "patched", RUNNER: "patched"}


def test_a_real_tree_is_as_the_table_says(shipped: Path, release_root: Path, tmp_path: Path) -> None:
    tree = read_tree(str(release_root))
    row = next((each for each in known_releases() if has_the_texts_of(tree, each)), None)
    assert row is not None, "no release with these functions is listed; 'gaudi-shadow verify' says what to add"
    report = checked(shipped, "--root", release_root, env=on_path(shipped))
    assert report["exit_code"] == (2 if "refused" in row.state else 0)
    named = tmp_path / "named"
    shutil.copytree(release_root / "vllm_gaudi", named / "vllm_gaudi")
    if row.release.startswith("v"):
        name_it(named, row.release.removeprefix("v"))
    report = checked(shipped, "--root", named, env=on_path(shipped))
    found = {name: "refused" if state == "drifted" else state for name, state in states_in(report).items()}
    assert found == states(row)


def has_the_texts_of(tree: ReleaseTree, release: KnownRelease) -> bool:
    if release.state == "unconfirmed":
        expected = {name: fix.fingerprints for name, fix in catalog.overlay(release.release).fixes.items()}
    else:
        expected = {fix.name: (seen.fingerprint,) for fix, seen in TEXTS if release.release in seen.releases}
    fixes = catalog.known_fixes()
    found = {name: tree.function(fixes[name].module, fixes[name].function) for name in expected}
    return all((text.fingerprint if text else "missing") in expected[name] for name, text in found.items())
