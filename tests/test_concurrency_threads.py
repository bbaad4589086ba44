"""Threads, import cycles, failing and repeated imports: no deadlock, no double patch, no partial state."""

from __future__ import annotations

import json

import pytest
from adversity.light import FUNCTIONS, RELEASE, TARGETS, target_file
from conftest import RUNNER, UTILS, Workshop, run_python

# Every script has its own clock: what has not ended by then is a deadlock, and every thread's stack is shown.
TIMED = """
import faulthandler, importlib, json, sys, threading
faulthandler.dump_traceback_later(60, exit=True)
"""


def answer_of(script: str, light: Workshop, **variables: str) -> dict:
    done = run_python("-c", TIMED + script, env=light.environment(RELEASE, **variables))
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "lines": done.stderr.splitlines()}


THREADS = f"""
barrier = threading.Barrier(len(names := {[*TARGETS, "SIBLINGS"]!r}) * 12)
SIBLINGS = ("vllm_gaudi.models", "vllm.model_executor.models.utils", "vllm.multimodal.utils", "vllm_gaudi.v1.worker")
files, errors = set(), []

def work(name, number):
    barrier.wait()
    try:
        module = importlib.import_module(name if name != "SIBLINGS" else SIBLINGS[number % len(SIBLINGS)])
        found = module
        for part in dict({FUNCTIONS!r}).get(name, "").split("."):
            found = getattr(found, part) if part else None
        if found is not None:
            files.add((name, id(module), found.__code__.co_filename, id(found)))
    except BaseException as error:
        errors.append(repr(error))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work, args=(name, number)) for number in range(12) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
import gaudi_shadow
states = {{name: entry["state"] for name, entry in gaudi_shadow.status()["modules"].items()}}
print(json.dumps({{"files": sorted(files), "errors": errors, "states": states}}))
"""


@pytest.mark.parametrize("attempt", range(4))
def test_many_threads_import_targets_and_siblings_at_once(light: Workshop, attempt: int) -> None:
    answer = answer_of(THREADS, light)
    assert answer["errors"] == [] and answer["lines"] == []
    assert answer["states"] == dict.fromkeys(TARGETS, "patched")
    assert [(name, "/overlays/" in file) for name, _, file, _ in answer["files"]] == [(name, True) for name in TARGETS]


CYCLE = f"""
done = []
def work(name):
    importlib.import_module(name)
    done.append(name)

threads = [threading.Thread(target=work, args=(name,)) for name in {TARGETS!r} * 4]
for thread in threads: thread.start()
for thread in threads: thread.join()
import gaudi_shadow
states = {{name: entry["state"] for name, entry in gaudi_shadow.status()["modules"].items()}}
print(json.dumps({{"states": states, "done": len(done)}}))
"""


@pytest.mark.parametrize("slow", ["", "import time; time.sleep(0.3)\n"], ids=["at once", "slowly"])
def test_targets_that_import_each_other(light: Workshop, slow: str) -> None:
    """From eight threads; Python breaks such a deadlock of module locks itself, and we must not add one of our own."""
    for module, other in zip(TARGETS, reversed(TARGETS), strict=True):
        path = target_file(light, module)
        path.write_text(f"{slow}import {other}\n" + path.read_text("utf-8") + f"\nimport {other}\n", "utf-8")
    answer = answer_of(CYCLE, light)
    assert answer["states"] == dict.fromkeys(TARGETS, "patched") and answer["done"] == 8


FAILS = f"""
import os
tried = []
for value in ("ValueError('mid')", "KeyboardInterrupt()", "SystemExit(3)", "ImportError('mid')", ""):
    os.environ["MUTANT"] = value
    try:
        module = importlib.import_module("{RUNNER}")
        tried.append(module.HPUModelRunner._execute_mm_encoder.__code__.co_filename)
    except BaseException as error:
        entry = sys.modules["gaudi_shadow"].status()["modules"]["{RUNNER}"]
        kept = sys.modules["sys"].kept.__code__.co_filename
        tried.append([type(error).__name__, entry["state"], entry["reason"], "{RUNNER}" in sys.modules, kept])
print(json.dumps({{"tried": tried}}))
"""


@pytest.mark.parametrize("place", ["middle", "end"])
def test_an_import_that_fails_and_is_tried_again(light: Workshop, place: str) -> None:
    """A failed module leaves none of our functions behind; the next attempt begins anew and is patched."""
    path = target_file(light, RUNNER)
    fail = "import os, sys\nsys.kept = HPUModelRunner._execute_mm_encoder\nif os.environ['MUTANT']:\n"
    fail += "    raise eval(os.environ['MUTANT'])\n"
    text = path.read_text("utf-8")
    path.write_text(text + fail + ("" if place == "end" else "\nLAST = 1\n"), "utf-8")
    answer = answer_of(FAILS, light)
    *failed, last = answer["tried"]
    assert "/overlays/" in last
    assert [name for name, *_ in failed] == ["ValueError", "KeyboardInterrupt", "SystemExit", "ImportError"]
    for name, state, reason, listed, kept in failed:
        assert (state, listed, kept) == ("failed", False, str(path))
        assert reason.startswith(f"its own import failed: {name}")
    assert answer["lines"] == []


RELOADS = f"""
import {UTILS} as utils, {RUNNER} as runner
before = runner.HPUModelRunner
files = []
for _ in range(5):
    for module in (utils, runner):
        assert importlib.reload(module) is module
    files += [utils._merge_multimodal_embeddings.__code__.co_filename]
    files += [runner.HPUModelRunner._execute_mm_encoder.__code__.co_filename]
import vllm.model_executor.models.utils as vllm_utils
print(json.dumps({{
    "files": files,
    "alias": vllm_utils._merge_multimodal_embeddings is utils._merge_multimodal_embeddings,
    "new class": runner.HPUModelRunner is not before,
    "finders": [type(f).__name__ for f in sys.meta_path].count("ShadowFinder"),
    "loaders": [type(m.__loader__).__name__ + type(m.__spec__.loader).__name__ for m in (utils, runner)],
    "states": {{n: e["state"] for n, e in sys.modules["gaudi_shadow"].status()["modules"].items()}},
}}))
"""


def test_a_reload_patches_once_more_and_not_twice(light: Workshop) -> None:
    answer = answer_of(RELOADS, light)
    assert len(answer["files"]) == 10 and all("/overlays/" in file for file in answer["files"])
    assert answer["alias"] and answer["new class"] and answer["finders"] == 1
    assert answer["loaders"] == ["SourceFileLoaderSourceFileLoader"] * 2
    assert answer["states"] == dict.fromkeys(TARGETS, "patched")


def test_a_reload_of_a_function_that_has_drifted_meanwhile_is_stock(light: Workshop) -> None:
    path = target_file(light, UTILS)
    script = f"""
import {UTILS} as utils
path = {str(path)!r}
text = open(path).read()
files = [utils._merge_multimodal_embeddings.__code__.co_filename]
for change in ("    return (inputs_embeds)", "    return  inputs_embeds", "    return inputs_embeds"):
    with open(path, "w") as file:
        file.write(text.replace("    return inputs_embeds", change))
    importlib.reload(utils)
    files.append(utils._merge_multimodal_embeddings.__code__.co_filename)
print(json.dumps({{"files": files, "state": sys.modules["gaudi_shadow"].status()["modules"]["{UTILS}"]["state"]}}))
"""
    answer = answer_of(script, light, PYTHONDONTWRITEBYTECODE="1")
    assert ["/overlays/" in file for file in answer["files"]] == [True, False, False, True]
    assert answer["state"] == "patched"
    assert len(answer["lines"]) == 2, "one line for each text that is not known, however often it is imported"


def test_threads_reload_while_others_import(light: Workshop) -> None:
    script = f"""
errors = []
def work(number):
    try:
        for _ in range(5):
            for name in {TARGETS!r}:
                module = importlib.import_module(name)
                if number % 2:
                    importlib.reload(module)
    except BaseException as error:
        errors.append(repr(error))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
import {UTILS} as utils, {RUNNER} as runner
files = [utils._merge_multimodal_embeddings.__code__.co_filename]
files += [runner.HPUModelRunner._execute_mm_encoder.__code__.co_filename]
print(json.dumps({{"errors": errors, "files": files}}))
"""
    answer = answer_of(script, light)
    assert answer["errors"] == [] and all("/overlays/" in file for file in answer["files"]) and answer["lines"] == []


def test_a_lock_that_an_import_holds_is_not_waited_for(light: Workshop) -> None:
    """While a target's body waits for a thread, that thread imports the other target and asks for our status."""
    path = target_file(light, RUNNER)
    inside = f"""
import threading
def _ask():
    import {UTILS}, gaudi_shadow
    gaudi_shadow.status()
_thread = threading.Thread(target=_ask)
_thread.start()
_thread.join(30)
assert not _thread.is_alive(), "deadlock"
"""
    path.write_text(path.read_text("utf-8") + inside, "utf-8")
    script = f"import {RUNNER}\nprint(json.dumps(sys.modules['gaudi_shadow'].status()['modules']))"
    answer = answer_of(script, light)
    assert {name: answer[name]["state"] for name in TARGETS} == dict.fromkeys(TARGETS, "patched")
