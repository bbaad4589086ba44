"""Any part of ours broken: the program runs stock, one line says why, its exit code is its own; strict refuses."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adversity.light import ASK, RELEASE, TARGETS, Answer, ask, ask_strict_too, make_light
from conftest import CHECKOUT, RUNNER, UTILS, Workshop, bare_python, run_python

needs_another_user = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv, to be another user"
)


@pytest.fixture
def light(tmp_path: Path) -> Workshop:
    return make_light(tmp_path)


def package(light: Workshop) -> Path:
    return light.hook / "gaudi_shadow"


def check_it_runs_stock(light: Workshop, *concerned: str, words: tuple[str, ...] = ()) -> None:
    """The targets concerned are stock and said to be; the others are patched; strict refuses those concerned."""
    answer = ask_strict_too(light.environment(RELEASE))
    for module in TARGETS:
        assert answer.imports[module] == "imported"
        assert answer.is_patched(module) is (module not in concerned), answer.done.stderr
        assert answer.strict[module].startswith("ImportError: " if module in concerned else "imported")
    assert len(answer.lines) == len(concerned), answer.done.stderr
    for module, line in zip(sorted(concerned), answer.lines, strict=True):
        assert line.startswith(f"gaudi-shadow: {module} ")
        assert "reinstall gaudi-shadow" in line or "gaudi-shadow report" in line, line
        for word in ("stays stock", *words):
            assert word in line


# --- the package's own modules ----------------------------------------------------------------------------------------

BREAK = """

def _wrong(*args, **kwargs):
    raise TypeError("of another version")

for _name, _value in list(globals().items()):
    if getattr(_value, "__module__", None) == __name__ and type(_value).__name__ == "function":
        globals()[_name] = _wrong
"""
DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_text("", "utf-8"),
    "cut": lambda path: path.write_text(path.read_text("utf-8")[: len(path.read_text("utf-8")) // 2] + "\n(", "utf-8"),
    "zeros": lambda path: path.write_bytes(b"\x00" * 4096),
    "not text": lambda path: path.write_bytes(os.urandom(64) + b"\xff\xfe\xfa"),
    "another program's": lambda path: path.write_text("raise RuntimeError('not ours')\n", "utf-8"),
    "of another version": lambda path: path.write_text(path.read_text("utf-8") + BREAK, "utf-8"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path)),
}
EAGER = ("__init__", "finder")


@functools.cache
def loaded_modules() -> tuple[str, ...]:
    """Our modules that an import of both targets loads, without those that every process has."""
    script = f"import {UTILS}, {RUNNER}, sys; print(*[n for n in sys.modules if n.startswith('gaudi_shadow.')])"
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"gaudi-shadow-loaded-{os.getpid()}"
    try:
        light = make_light(folder)
        names = run_python("-c", script, env=light.environment(RELEASE)).stdout.split()
    finally:
        shutil.rmtree(folder)
    return tuple(sorted(name.removeprefix("gaudi_shadow.") for name in names if not name.endswith(EAGER)))


def test_every_module_is_among_those_that_are_broken() -> None:
    assert {"loader", "specs", "decide", "stock", "match", "graft", "record", "fixes.mm_encoder"} < set(
        loaded_modules()
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_module_of_ours(light: Workshop, damage: str) -> None:
    """Each in turn. No damage stops a program, and none is passed over in silence where a fix is missing."""
    everywhere = damage in ("missing", "of another version")
    for name in loaded_modules() if everywhere else ("loader", "decide", "fixes.mm_encoder", "fixes"):
        path = package(light).joinpath(*name.split(".")).with_suffix(".py")
        if not path.exists():
            path = package(light).joinpath(*name.split("."), "__init__.py")
        original = path.read_bytes()
        DAMAGES[damage](path)
        for cached in package(light).rglob("__pycache__"):
            shutil.rmtree(cached)
        answer = ask_strict_too(light.environment(RELEASE))
        where = f"{name} is {damage}: {answer.done.stderr}"
        assert len(answer.lines) <= 2 and all(line.startswith("gaudi-shadow: ") for line in answer.lines), where
        for module in TARGETS:
            assert answer.imports[module] == "imported", where
            said = [line for line in answer.lines if line.startswith(f"gaudi-shadow: {module} ")]
            if "/overlays/" not in answer.files[module]:
                assert said, f"{where}: {module} is stock in silence"
                assert "stays stock" in said[0], where
                assert answer.strict[module].startswith("ImportError: "), f"{where}: {answer.strict}"
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(original)
    assert all(map(ask(light.environment(RELEASE)).is_patched, TARGETS)), "the test has not put all back"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", EAGER)
def test_damage_to_what_every_process_loads(light: Workshop, name: str, damage: str) -> None:
    """Python starts, prints what it should, and at most one line of ours."""
    DAMAGES[damage](package(light) / f"{name}.py")
    done = run_python("-c", f"import {UTILS}, sys; print(1); sys.exit(7)", env=light.environment(RELEASE))
    assert (done.returncode, done.stdout) == (7, "1\n"), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) <= 1 and all(line.startswith("gaudi-shadow: ") for line in lines), done.stderr


def test_a_package_deleted_below_a_running_process(light: Workshop) -> None:
    """pip uninstall, or an upgrade, while a server starts: what is imported afterwards is stock, and said to be."""
    script = f"""
import shutil, sys
shutil.rmtree({str(package(light))!r})
import {RUNNER} as module, {UTILS}
import importlib
importlib.reload(module)
print(module.HPUModelRunner._execute_mm_encoder.__code__.co_filename)
"""
    done = run_python("-c", script, env=light.environment(RELEASE))
    assert done.returncode == 0 and "/overlays/" not in done.stdout, done.stderr
    assert len(done.stderr.splitlines()) == 2, "one line for each target, and none for a reload"
    assert all("stays stock" in line and "reinstall gaudi-shadow" in line for line in done.stderr.splitlines())
    shutil.copytree(CHECKOUT / "gaudi_shadow", package(light), ignore=shutil.ignore_patterns("__pycache__"))
    strict = run_python("-c", script, env=light.environment(RELEASE, VLLM_GAUDI_SHADOW_STRICT="1"))
    assert strict.returncode == 1 and "\nImportError: " in strict.stderr


def test_a_part_deleted_between_the_two_targets(light: Workshop) -> None:
    script = f"""
import os, sys
import {UTILS}
os.remove({str(package(light) / "fixes" / "mm_encoder.py")!r})
import {RUNNER} as module
print(module.HPUModelRunner._execute_mm_encoder.__code__.co_filename)
print(sys.modules["gaudi_shadow"].status()["modules"]["{UTILS}"]["state"])
"""
    done = run_python("-c", script, env=light.environment(RELEASE, PYTHONDONTWRITEBYTECODE="1"))
    assert "/overlays/" not in done.stdout and done.stdout.splitlines()[1] == "patched"
    assert len(done.stderr.splitlines()) == 1 and "mm-encoder-budget" in done.stderr


# --- packaging, metadata ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "raise ImportError", "raise RuntimeError", "(", "\x00"])
def test_packaging_missing_or_damaged(light: Workshop, content: str | None) -> None:
    """It only orders the overlays; without it the newest is tried first, and the fingerprint decides all the same."""
    blocker = light.hook / "packaging"
    blocker.mkdir()
    (blocker / "__init__.py").write_text("" if content is None else content, "utf-8")
    for release in light.trees:
        answer = ask(light.environment(release))
        assert all(map(answer.is_patched, TARGETS)) and answer.lines == []


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"Version\n", b"Version: \n", b"Version: not one\n", b"\x00" * 99]
)
def test_metadata_that_says_nothing(light: Workshop, content: bytes) -> None:
    (info,) = light.trees[RELEASE].glob("*.dist-info")
    (info / "METADATA").write_bytes(content)
    (info / "direct_url.json").write_bytes(content)
    (light.trees[RELEASE] / "vllm_gaudi" / "_version.py").write_bytes(content)
    answer = ask(light.environment(RELEASE))
    assert all(map(answer.is_patched, TARGETS)) and answer.lines == []


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


def overlay(light: Workshop, module: str = RUNNER) -> Path:
    for release in (RELEASE, "v0.26.0"):
        path = (package(light) / "overlays" / release).joinpath(*module.split(".")).with_suffix(".py")
        if path.exists():
            return path
    raise AssertionError(module)


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


# --- permissions ------------------------------------------------------------------------------------------------------


@needs_another_user
@pytest.mark.parametrize("part", ["overlays", f"overlays/{RELEASE}/manifest.json", "OVERLAY", "loader.py", "fixes"])
def test_parts_that_may_not_be_read(tmp_path_factory: pytest.TempPathFactory, part: str) -> None:
    folder = tmp_path_factory.mktemp("unreadable")
    light = make_light(folder)
    for parent in [folder, *folder.parents]:
        if len(parent.parts) > 2:
            parent.chmod(parent.stat().st_mode | 0o055)
    path = overlay(light) if part == "OVERLAY" else package(light) / part
    path.chmod(0)
    setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups", bare_python()]
    done = run_python(*setpriv, "-c", ASK, env=light.environment(RELEASE), python="setpriv")
    path.chmod(0o755)
    answer = Answer(done)
    assert not answer.is_patched(RUNNER)
    assert 1 <= len(answer.lines) <= 2 and all("stays stock" in line for line in answer.lines), done.stderr
