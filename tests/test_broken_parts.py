"""Any part of ours broken: the program runs stock, one line says why, its exit code is its own; strict refuses."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adversity.damage import overlay, package
from adversity.light import ASK, RELEASE, TARGETS, Answer, ask, ask_strict_too, make_light
from conftest import CHECKOUT, RUNNER, UTILS, Workshop, bare_python, run_python

needs_another_user = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv, to be another user"
)


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
