"""A process that has the real vLLM and the patched release, and does one job after the other for a bench.

Importing vLLM and the release takes half a minute, so a worker imports once. With `fork` each job then runs in a
process of its own, forked from that state: all jobs start alike, and none sees another's memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

BENCH = Path(__file__).resolve().parent
Job = Callable[..., Any]


class Worker:
    """The bench's end of it.

    Args:
        options: `root`, `python` and `work` of the command line (see `measuring.arguments`).
        script: the bench itself, which calls `serve` when it is started as the worker.
        variables: for the worker's environment, beside those of tests/real.
    """

    def __init__(self, options: Namespace, script: str, **variables: str) -> None:
        sys.path.insert(0, str(BENCH.parent / "tests" / "real"))
        from environments import Missing, find

        self.work = (options.work or Path(tempfile.mkdtemp(prefix="gaudi-shadow-bench-"))).resolve()
        try:
            self.setup = find(options.root, options.python, self.work)
        except Missing as error:
            raise SystemExit(f"bench: {error}") from None
        environ = self.setup.environ("PYTHONPATH", VLLM_LOGGING_LEVEL="ERROR", **variables)
        self.log = self.work / f"{Path(script).stem}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [self.setup.python, script, "--worker"],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, job: str, **parameters: Any) -> Any:
        """What a job returns.

        Raises:
            RuntimeError: it failed; the worker's log says how.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([job, parameters]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the worker died"}
        if "error" in answer:
            raise RuntimeError(f"{job} {parameters}: {answer['error']}; see {self.log}")
        return answer["result"]

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(jobs: Mapping[str, Job], *, fork: bool = True) -> int:
    """The worker's end: read jobs from stdin, write what they return to stdout, one line each."""
    out = os.dup(1)  # vLLM prints on stdout too
    os.dup2(2, 1)
    for line in sys.stdin:
        name, parameters = json.loads(line)
        pid = os.fork() if fork else 0
        if pid:
            _, status = os.waitpid(pid, 0)
            if status:
                os.write(out, json.dumps({"error": f"it ended with status {status}"}).encode() + b"\n")
            continue
        try:
            answer = {"result": jobs[name](**parameters)}
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        os.write(out, json.dumps(answer).encode() + b"\n")
        if fork:
            os._exit(0)
    return 0


def codes_of(function: Any, module: Any) -> dict[str, CodeType]:
    """The code of a function that the hook has patched, and the stock one.

    Args:
        function: the patched one, as the module holds it.
        module: the module that defines it; its loader is the stock one.
    """
    from gaudi_shadow import status
    from gaudi_shadow.graft import find_code

    assert status()["modules"][module.__name__]["state"] == "patched", status()  # type: ignore[index]
    stock = find_code(module.__spec__.loader.get_code(module.__name__), function.__qualname__)
    assert stock != function.__code__
    return {"stock": stock, "patched": function.__code__}


def functions_of(function: Any, module: Any) -> dict[str, Any]:
    """The patched function and one with the stock code, both with the module's own globals."""
    codes = codes_of(function, module)
    return {name: FunctionType(code, vars(module), function.__name__) for name, code in codes.items()}
