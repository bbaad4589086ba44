"""Many interpreters at once, and forks in the middle of an import: each ends in time and is patched."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from adversity.light import ASK, RELEASE, TARGETS, target_file
from conftest import RUNNER, UTILS, Workshop, bare_python, run_python

INTERPRETERS = 64
TIMED = "import faulthandler; faulthandler.dump_traceback_later(200, exit=True)\n"

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def test_sixty_four_interpreters_at_once(light: Workshop) -> None:
    """From a cold cache, so that they also write their `.pyc` files at the same time."""
    command = [str(bare_python()), "-c", TIMED + ASK]
    processes = [
        subprocess.Popen(
            command, env=light.environment(RELEASE), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(INTERPRETERS)
    ]
    ended = [(*process.communicate(timeout=240), process.returncode) for process in processes]
    assert [(said, code) for _, said, code in ended if said or code] == []
    for printed, _, _ in ended:
        answer = json.loads(printed)
        assert all("/overlays/" in answer["files"][module] for module in TARGETS)
        assert {module: entry["state"] for module, entry in answer["status"]["modules"].items()} == dict.fromkeys(
            TARGETS, "patched"
        )
    rest = list(light.hook.rglob("*.pyc.*"))
    assert rest == [], "half written files"


REPORT = f"""
import json, os, sys
def report(name):
    module = sys.modules["{UTILS}"]
    states = {{n: e["state"] for n, e in sys.modules["gaudi_shadow"].status()["modules"].items()}}
    line = json.dumps([name, module._merge_multimodal_embeddings.__code__.co_filename, states["{UTILS}"]])
    os.write(1, (line + chr(10)).encode())
"""


def check_parent_and_child(light: Workshop, script: str) -> None:
    """A script that reports from a parent and its child ends well, quietly, and patched in both."""
    done = run_python("-c", TIMED + REPORT + script, env=light.environment(RELEASE))
    assert (done.returncode, done.stderr) == (0, "")
    said = sorted(map(json.loads, done.stdout.splitlines()))
    assert [name for name, _, _ in said] == ["child", "parent"]
    assert all("/overlays/" in file and state == "patched" for _, file, state in said)


@needs_fork
def test_a_fork_in_the_body_of_a_target(light: Workshop) -> None:
    """The child goes on with the import that its parent began."""
    path = target_file(light, UTILS)
    text = path.read_text("utf-8")
    path.write_text(text + "\nimport os\nCHILD = os.fork()\n", "utf-8")
    script = f"""
import {UTILS} as module
report("child" if module.CHILD == 0 else "parent")
if module.CHILD == 0:
    import {RUNNER}
    os._exit(0)
assert os.waitpid(module.CHILD, 0)[1] == 0
"""
    check_parent_and_child(light, script)


@needs_fork
@pytest.mark.parametrize("part", ["specs", "loader", "decide", "graft", "record"])
def test_a_fork_while_our_own_modules_are_imported(light: Workshop, part: str) -> None:
    script = f"""
children = []
def hook(event, arguments):
    if event == "import" and arguments[0] == "gaudi_shadow.{part}" and not children:
        children.append(None)
        children.append(os.fork())
sys.addaudithook(hook)
import {UTILS}, {RUNNER}
report("child" if children[1] == 0 else "parent")
if children[1] == 0:
    os._exit(0)
assert os.waitpid(children[1], 0)[1] == 0
"""
    check_parent_and_child(light, script)


@needs_fork
def test_workers_that_are_forked_before_and_after_the_import(light: Workshop) -> None:
    """A refusal is said once by the process that imports, and not again by those that are forked from it."""
    path = target_file(light, RUNNER)
    path.write_text(path.read_text("utf-8").replace("_execute_mm_encoder", "_execute_other"), "utf-8")
    script = f"""
import multiprocessing
def work(queue):
    import {UTILS}, {RUNNER}
    queue.put({UTILS}._merge_multimodal_embeddings.__code__.co_filename)

context = multiprocessing.get_context("fork")
queue = context.Queue()
for imported in (False, True):
    if imported:
        import {UTILS}, {RUNNER}
    workers = [context.Process(target=work, args=(queue,)) for _ in range(4)]
    for worker in workers: worker.start()
    files = [queue.get(timeout=60) for _ in workers]
    for worker in workers: worker.join(60)
    print(json.dumps(["/overlays/" in file for file in files]))
"""
    done = run_python("-c", TIMED + REPORT + script, env=light.environment(RELEASE))
    assert done.stdout == "[true, true, true, true]\n" * 2, done.stderr
    assert len(done.stderr.splitlines()) == 4 + 1, "four workers that import for themselves, and their parent"
