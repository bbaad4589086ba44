"""A class pickled in one process and loaded in another is the patched one, whatever starts the other."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

from activation.places import run
from activation.shared import piped_venv
from conftest import RUNNER

PROGRAM = f"""
import json, multiprocessing, pickle, subprocess, sys

LOAD = "import pickle, sys; print(pickle.load(sys.stdin.buffer)._execute_mm_encoder.__code__.co_filename)"


def file_of(cls, queue):
    queue.put(cls._execute_mm_encoder.__code__.co_filename)


if __name__ == "__main__":
    from {RUNNER} import HPUModelRunner

    files = []
    for flags in ([], ["-I"], ["-E"]):
        command = [sys.executable, *flags, "-c", LOAD]
        files.append(subprocess.check_output(command, input=pickle.dumps(HPUModelRunner)).decode().strip())
    for method in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        context.Process(target=file_of, args=(HPUModelRunner, queue)).start()
        files.append(queue.get(timeout=60))
    instance = pickle.loads(pickle.dumps(HPUModelRunner("model", "requests")))
    files.append(instance._execute_mm_encoder.__func__.__code__.co_filename)
    print(json.dumps(files))
"""


def test_the_class_that_arrives_is_the_patched_one(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    files = json.loads(run(piped_venv().python, program).stdout)
    overlay = piped_venv().site_packages / "gaudi_shadow" / "overlays" / "v0.30.0"
    expected = str(overlay / "vllm_gaudi" / "v1" / "worker" / "hpu_model_runner.py")
    assert files == [expected] * (4 + len(multiprocessing.get_all_start_methods()))
