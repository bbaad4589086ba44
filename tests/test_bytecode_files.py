"""Compiled files that are stale, odd or alone: the module is patched, or refused with the reason; never a mixture."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import py_compile
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from adversity.light import ASK, RELEASE, TARGETS, Answer, ask, edit_inside, edit_outside, make_light, target_file
from conftest import RUNNER, UTILS, Workshop, bare_python, run_python

Edit = Callable[[Path, str, Callable[[str], str]], None]
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
CHECKED = py_compile.PycInvalidationMode.CHECKED_HASH
TIMESTAMP = py_compile.PycInvalidationMode.TIMESTAMP


def compile_other(path: Path, module: str, mode: py_compile.PycInvalidationMode, edit: Edit = edit_inside) -> None:
    """Write the `.pyc` of a text that differs from the file's, and make Python believe it belongs to the file."""
    original = path.read_bytes()
    edit(path, module, lambda line: line + "; mutant = 1")
    py_compile.compile(str(path), doraise=True, invalidation_mode=mode)
    path.write_bytes(original)
    if mode is TIMESTAMP:
        cached = Path(importlib.util.cache_from_source(str(path)))
        data = bytearray(cached.read_bytes())
        stat = path.stat()
        data[8:16] = struct.pack("<II", int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF)
        cached.write_bytes(data)


def other(module: str) -> str:
    return RUNNER if module == UTILS else UTILS


@pytest.mark.parametrize("module", TARGETS)
@pytest.mark.parametrize("mode", [UNCHECKED, TIMESTAMP], ids=["unchecked hash", "forged time"])
def test_bytecode_of_another_text_is_refused(
    light: Workshop, module: str, mode: py_compile.PycInvalidationMode
) -> None:
    """Python itself executes such a file, so its function is not the one whose text we know."""
    path = target_file(light, module)
    compile_other(path, module, mode)
    answer = ask(light.environment(RELEASE))
    assert not answer.is_patched(module)
    assert answer.is_patched(other(module))
    [line] = answer.lines
    assert "bytecode does not match source" in line and "remove the stale .pyc files" in line and str(path) in line
    strict = ask(light.environment(RELEASE, VLLM_GAUDI_SHADOW_STRICT="1"))
    assert "bytecode does not match source" in strict.imports[module]
    check = run_python("-m", "gaudi_shadow", "check", "--json", env=light.environment(RELEASE))
    assert check.returncode == 1
    reasons = [fix["reason"] for fix in json.loads(check.stdout)["fixes"] if fix["module"] == module]
    assert reasons and all("bytecode does not match source" in reason for reason in reasons)


@pytest.mark.parametrize("module", TARGETS)
@pytest.mark.parametrize("mode", [UNCHECKED, TIMESTAMP], ids=["unchecked hash", "forged time"])
def test_bytecode_that_differs_outside_the_function_is_patched(
    light: Workshop, module: str, mode: py_compile.PycInvalidationMode
) -> None:
    """What stock Python would execute outside of the function is executed; the function is the known one."""
    compile_other(target_file(light, module), module, mode, edit_outside)
    answer = ask(light.environment(RELEASE))
    assert answer.is_patched(module) and answer.lines == []
    done = run_python("-c", f"import {module} as m; print(m.mutant)", env=light.environment(RELEASE))
    assert done.stdout == "1\n", done.stderr


@pytest.mark.parametrize("module", TARGETS)
def test_bytecode_that_python_checks_and_rejects_is_no_obstacle(light: Workshop, module: str) -> None:
    compile_other(target_file(light, module), module, CHECKED)
    answer = ask(light.environment(RELEASE))
    assert answer.is_patched(module) and answer.lines == []


@pytest.mark.parametrize("module", TARGETS)
def test_a_lying_name_in_the_bytecode_does_not_help(light: Workshop, module: str) -> None:
    """The function's lines and name are right, its instructions are another's."""
    path = target_file(light, module)
    code = compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True)

    def without_body(const: object) -> object:
        if not hasattr(const, "co_code"):
            return const
        consts = tuple(map(without_body, const.co_consts))
        if const.co_name in ("_merge_multimodal_embeddings", "_execute_mm_encoder"):
            return const.replace(co_consts=tuple("mutant" if isinstance(each, str) else each for each in consts))
        return const.replace(co_consts=consts)

    cached = Path(importlib.util.cache_from_source(str(path)))
    cached.parent.mkdir(exist_ok=True)
    data = importlib.util.MAGIC_NUMBER + struct.pack("<IQ", 1, 0) + marshal.dumps(without_body(code))
    cached.write_bytes(data)
    answer = ask(light.environment(RELEASE))
    assert not answer.is_patched(module)
    assert "bytecode does not match source" in answer.reasons(module)


@pytest.mark.parametrize("module", TARGETS)
@pytest.mark.parametrize("legacy", [True, False], ids=["beside", "in __pycache__ only"])
def test_a_module_without_source_is_refused(light: Workshop, module: str, legacy: bool) -> None:
    path = target_file(light, module)
    py_compile.compile(str(path), cfile=str(path) + "c" if legacy else None, doraise=True)
    path.unlink()
    answer = ask(light.environment(RELEASE))
    if legacy:
        assert not answer.is_patched(module)
        assert answer.imports[module] == "imported"
        assert "no source to compare" in answer.reasons(module)
        assert len(answer.lines) == 1 and "install it from source" in answer.lines[0]
    else:  # Python does not find such a module, and neither do we
        assert answer.imports[module].startswith("ModuleNotFoundError")
        assert answer.lines == []


WAYS = {
    "-O": (["-O"], {}),
    "-OO": (["-OO"], {}),
    "PYTHONOPTIMIZE=1": ([], {"PYTHONOPTIMIZE": "1"}),
    "PYTHONOPTIMIZE=2": ([], {"PYTHONOPTIMIZE": "2"}),
    "PYTHONDONTWRITEBYTECODE": ([], {"PYTHONDONTWRITEBYTECODE": "1"}),
    "PYTHONPYCACHEPREFIX": ([], {"PYTHONPYCACHEPREFIX": "PREFIX"}),
    "-X pycache_prefix": (["-X", "pycache_prefix=PREFIX"], {}),
    "checked pycs always": (["--check-hash-based-pycs", "always"], {}),
    "-B": (["-B"], {}),
    "-X no_debug_ranges": (["-X", "no_debug_ranges"], {}),
    "-X dev": (["-X", "dev", "-W", "error"], {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_keep_bytecode_is_patched(light: Workshop, way: str, tmp_path: Path) -> None:
    """From a cold and from a warm cache; and what it leaves in the cache is no obstacle without it."""
    prefix = str(tmp_path / "prefix")
    flags = [flag.replace("PREFIX", prefix) for flag in WAYS[way][0]]
    if "no_debug_ranges" in way and sys.version_info < (3, 11):
        pytest.skip("needs Python 3.11, which brought -X no_debug_ranges")
    variables = {name: value.replace("PREFIX", prefix) for name, value in WAYS[way][1].items()}
    environment = light.environment(RELEASE, **variables)
    for _ in ("cold", "warm"):
        answer = ask(environment, *flags)
        assert all(map(answer.is_patched, TARGETS)) and answer.lines == []
    assert all(map(ask(light.environment(RELEASE)).is_patched, TARGETS))
    if "refix" in way:
        assert list((tmp_path / "prefix").rglob("hpu_model_runner*.pyc")), "the cache was not used"


def test_optimised_bytecode_of_another_text_is_refused(light: Workshop) -> None:
    path = target_file(light, UTILS)
    original = path.read_bytes()
    edit_inside(path, UTILS, lambda line: line + "; mutant = 1")
    py_compile.compile(str(path), doraise=True, optimize=2, invalidation_mode=UNCHECKED)
    path.write_bytes(original)
    assert ask(light.environment(RELEASE)).is_patched(UTILS)
    assert ask(light.environment(RELEASE), "-O").is_patched(UTILS)
    answer = ask(light.environment(RELEASE), "-OO")
    assert not answer.is_patched(UTILS) and "bytecode does not match source" in answer.reasons(UTILS)


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv, to be another user"
)
def test_a_tree_that_may_not_be_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As a user who may write nowhere: patched, and nothing is said."""
    folder = tmp_path_factory.mktemp("readable")
    light = make_light(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in folder.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups", bare_python()]
    answer = Answer(run_python(*setpriv, "-c", ASK, env=light.environment(RELEASE), python="setpriv"))
    assert all(map(answer.is_patched, TARGETS)) and answer.lines == []
    assert not list(folder.rglob("__pycache__"))
