"""A manifest or an overlay file of ours broken: the program runs stock, one line says why; strict refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adversity.damage import check_it_runs_stock, overlay, package
from adversity.light import RELEASE, TARGETS, ask
from conftest import RUNNER, UTILS, Workshop

# --- manifests --------------------------------------------------------------------------------------------------------


def manifest(light: Workshop, release: str = RELEASE) -> Path:
    return package(light) / "overlays" / release / "manifest.json"


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    def damage(path: Path) -> None:
        document = json.loads(path.read_text("utf-8"))
        change(document)
        path.write_text(json.dumps(document), "utf-8")

    return damage


def each_fix(field: str, value: Any) -> Callable[[Path], Any]:
    return edited(lambda document: [fix.update({field: value}) for fix in document["fixes"].values()])


MANIFESTS: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_text("", "utf-8"),
    "not JSON": lambda path: path.write_text("release = 'v0.30.0'\n", "utf-8"),
    "cut": lambda path: path.write_text(path.read_text("utf-8")[:-5], "utf-8"),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "a null byte": lambda path: path.write_text(path.read_text("utf-8").replace("release", "rel\x00ease"), "utf-8"),
    "a list": lambda path: path.write_text("[]", "utf-8"),
    "a number": lambda path: path.write_text("1e999", "utf-8"),
    "nested without end": lambda path: path.write_text("[" * 200_000, "utf-8"),
    "nested objects": lambda path: path.write_text('{"a":' * 100_000, "utf-8"),
    "huge": lambda path: path.write_text(path.read_text("utf-8") + " " * 100_000_000, "utf-8"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path)),
    "no fixes": edited(lambda document: document.pop("fixes")),
    "fixes a list": edited(lambda document: document.update(fixes=[])),
    "a fix a string": edited(lambda document: document["fixes"].update({"mm-encoder-budget": "on"})),
    "an unknown field": edited(lambda document: document.update(surprise=1)),
    "an unknown field of a fix": each_fix("surprise", "1"),
    "another release": edited(lambda document: document.update(release="v0.1.0")),
    "its own base": edited(lambda document: document.update(base=RELEASE)),
    "a base that is not there": edited(lambda document: document.update(base="v0.0.1")),
    "a base elsewhere": edited(lambda document: document.update(base="../../evil")),
    "a base of the wrong type": edited(lambda document: document.update(base=1)),
    "fingerprints a string": each_fix("fingerprints", "sha256:0"),
    "fingerprints of numbers": each_fix("fingerprints", [1]),
    "a function that is a number": each_fix("function", 1),
}


@pytest.mark.parametrize("damage", MANIFESTS)
def test_a_damaged_manifest(light: Workshop, damage: str) -> None:
    """The other release's overlay is whole, and its merge fits here too; the runner it does not fit."""
    MANIFESTS[damage](manifest(light))
    check_it_runs_stock(light, RUNNER, words=("v0.30.0/manifest.json",))


@pytest.mark.parametrize("damage", ["missing", "not JSON", "huge"])
def test_a_manifest_that_is_damaged_concerns_its_release_and_those_built_on_it(light: Workshop, damage: str) -> None:
    MANIFESTS[damage](manifest(light))
    other = ask(light.environment("v0.26.0"))
    assert all(map(other.is_patched, TARGETS)) and other.lines == []
    MANIFESTS["missing"](manifest(light, "v0.26.0"))
    check_it_runs_stock(light, *TARGETS, words=("/manifest.json",))


def test_manifests_that_are_each_others_base(light: Workshop) -> None:
    edited(lambda document: document.update(base=RELEASE))(manifest(light, "v0.26.0"))
    check_it_runs_stock(light, *TARGETS, words=("manifest.json", "base"))


@pytest.mark.parametrize("stray", ["v0.31.0.bak", "vendor", "v", "v\N{ARABIC-INDIC DIGIT ONE}", ".v0.30.0"])
def test_a_stray_folder_among_the_overlays_is_passed_over(light: Workshop, stray: str) -> None:
    shutil.copytree(package(light) / "overlays" / RELEASE, package(light) / "overlays" / stray)
    answer = ask(light.environment(RELEASE))
    assert all(map(answer.is_patched, TARGETS)) and answer.lines == []


@pytest.mark.parametrize(
    "damage", [shutil.rmtree, lambda path: (shutil.rmtree(path), path.mkdir())], ids=["gone", "empty"]
)
def test_no_overlays_at_all(light: Workshop, damage: Callable[[Path], Any]) -> None:
    damage(package(light) / "overlays")
    check_it_runs_stock(light, *TARGETS, words=("overlays",))


def test_a_fix_without_a_module(light: Workshop) -> None:
    """A manifest of a newer version names a fix whose code is not there."""
    edited(lambda document: document["fixes"].update(new=document["fixes"]["mm-encoder-covered"]))(manifest(light))
    check_it_runs_stock(light, RUNNER, words=("gaudi_shadow.fixes.new",))


# --- overlay files ----------------------------------------------------------------------------------------------------


def replaced(old: str, new: str) -> Callable[[Path], Any]:
    def damage(path: Path) -> None:
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    return damage


OVERLAYS: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_text("", "utf-8"),
    "a syntax error": lambda path: path.write_text(path.read_text("utf-8") + "\n    (\n", "utf-8"),
    "cut": lambda path: path.write_text(path.read_text("utf-8").rpartition("req_ids,")[0], "utf-8"),
    "a null byte": lambda path: path.write_bytes(path.read_bytes() + b"\x00"),
    "not text": lambda path: path.write_bytes(b"# \xe4\n" + path.read_bytes()),
    "huge": lambda path: path.write_bytes(path.read_bytes() + b"#" * 5_000_000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "the function is absent": replaced("def _execute_mm_encoder", "def other"),
    "the class is absent": replaced("class HPUModelRunner", "class Other"),
    "the function is there twice": lambda path: path.write_text(
        path.read_text("utf-8") + "    def _execute_mm_encoder(self, scheduler_output, req_ids):\n        pass\n",
        "utf-8",
    ),
    "another argument": replaced("scheduler_output, req_ids", "scheduler_output, ids"),
    "a generator": replaced("        encode_uncached(\n", "        yield\n        encode_uncached(\n"),
    "a coroutine": replaced("    def _execute_mm_encoder", "    async def _execute_mm_encoder"),
    "super()": replaced("        encode_uncached(\n", "        super()\n        encode_uncached(\n"),
    "a name that the fix does not have": replaced("encode_uncached", "encode_cached"),
    "a module that is not there": replaced("gaudi_shadow.fixes.mm_encoder", "gaudi_shadow.fixes.mm_decoder"),
}


@pytest.mark.parametrize("damage", OVERLAYS)
def test_a_damaged_overlay(light: Workshop, damage: str) -> None:
    OVERLAYS[damage](overlay(light))
    check_it_runs_stock(light, RUNNER, words=("mm-encoder-budget, mm-encoder-covered",))


def test_a_missing_overlay_is_not_replaced_by_another_releases(light: Workshop) -> None:
    """The base has a file of that name that calls a function which vLLM 0.30.0 does not have."""
    overlay(light).unlink()
    answer = ask(light.environment(RELEASE))
    assert not answer.is_patched(RUNNER) and answer.is_patched(UTILS)
    assert "no longer defines group_mm_kwargs_by_modality, which ours reads" in answer.reasons(RUNNER)
    overlay(light).unlink()
    check_it_runs_stock(light, RUNNER)


def test_a_missing_overlay(light: Workshop) -> None:
    overlay(light, UTILS).unlink()
    check_it_runs_stock(
        light, UTILS, words=("has no overlays/v0.30.0/vllm_gaudi/models/utils.py and no overlays/v0.26.0/",)
    )
