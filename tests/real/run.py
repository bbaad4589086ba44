"""The real vllm-gaudi in the real vLLM engine on a CPU, stock and with the hook: one command runs everything.

    python tests/real/run.py --root TREE --python VENV/bin/python [--work DIR] [--only STAGE,...] [--minutes 3]

See README.md beside this file. Exit code 0: all went as it should; 1: something did not; 2: something is missing, and
the line on stderr says what.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import scenarios
import serve_load
import verdicts
from asking import key_of
from environments import HERE, Missing, Setup, find
from verdicts import Row

PROCESSES = {"one": "one process", "core": "engine core apart", "worker": "engine core and worker apart"}
STAGES = {
    "stock-one": ("stock", "one"),
    "path-one": ("PYTHONPATH", "one"),
    "wheel-one": ("wheel", "one"),
    "stock-core": ("stock", "core"),
    "path-core": ("PYTHONPATH", "core"),
    "wheel-worker": ("wheel", "worker"),
}
TIMEOUT = 3600


def run_plan(setup: Setup, name: str, route: str, processes: str, engines: list[dict[str, Any]]) -> dict[str, Any]:
    """Run one plan in an interpreter of its own; the report, with the log's text.

    Raises:
        RuntimeError: the interpreter died without a report.
    """
    if processes == "worker":
        engines = [{**each, "options": {**each["options"], "distributed_executor_backend": "mp"}} for each in engines]
    plan = {"models": str(setup.work / "models"), "own_process": processes != "one", "engines": engines}
    plan_file, log_file = setup.work / f"{name}.plan.json", setup.work / f"{name}.log"
    plan_file.write_text(json.dumps(plan), "utf-8")
    variables = {"HPU_STANDIN_CARD_BYTES": "0"}
    if route != "stock":
        variables["VLLM_HPU_MM_ENCODER_MAX_PATCHES"] = str(scenarios.BUDGET)
    with log_file.open("w") as log:
        done = subprocess.run(
            [str(setup.interpreter(route)), str(HERE / "engine_worker.py"), str(plan_file)],
            env=setup.environ(route, **variables),
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    if not done.stdout.strip():
        raise RuntimeError(f"{name}: no report, exit code {done.returncode}; see {log_file}")
    report: dict[str, Any] = json.loads(done.stdout)
    (setup.work / f"{name}.json").write_text(json.dumps(report), "utf-8")
    return {**report, "log": log_file.read_text("utf-8", "replace")}


def reference_answers(setup: Setup) -> dict[tuple[str, str], Any]:
    """The reference's answers; those of an earlier run in the same work folder when the plan is the same."""
    engines = scenarios.reference()
    plan_file, report_file = setup.work / "reference.plan.json", setup.work / "reference.json"
    if report_file.exists() and json.loads(plan_file.read_text("utf-8"))["engines"] == json.loads(json.dumps(engines)):
        report = json.loads(report_file.read_text("utf-8"))
    else:
        report = run_plan(setup, "reference", "stock", "one", engines)
    errors = [step["error"] for engine in report["engines"] for step in engine["steps"] if "error" in step]
    if errors:
        report_file.unlink()
        raise RuntimeError(f"the reference died: {errors}")
    return verdicts.answers_by_request(engines, report)


def deaths(setup: Setup) -> dict[tuple[str, str], str]:
    """Which steps must kill stock, and by what."""
    due = {("small card", "many"): verdicts.DEVMEM}
    due |= {(f"batching {family}", "pairs at once"): verdicts.COMPILE for family in scenarios.FLAT_MASK}
    if setup.strips_covered_data:
        due["covered", "second visit"] = verdicts.COVERED
    return due


def hook_row(run: str, report: dict[str, Any], processes: str) -> Row:
    """Which processes report the hook, and what it counted in this one."""
    text, count = verdicts.reporters(report["log"])
    wanted = 1 + {"one": 0, "core": 1, "worker": 2}[processes] * len(report["engines"])
    status = report["status"] or {"modules": {}, "counters": {}}
    states = {f"{fix} {it['state']}" for each in status["modules"].values() for fix, it in each["fixes"].items()}
    counted = ", ".join(f"{name} {value}" for name, value in status["counters"].items() if value)
    text += f"; in the first: {', '.join(sorted(states))}" + (f"; {counted}" if counted else "")
    return Row(run, "-", "who reports the hook", text, count == wanted)


def stage_rows(setup: Setup, stage: str, reference: dict[tuple[str, str], Any]) -> Iterator[Row]:
    """Run one stage."""
    route, processes = STAGES[stage]
    engines = scenarios.stock() if route == "stock" else scenarios.patched()
    run = f"{route}, {PROCESSES[processes]}"
    report = run_plan(setup, stage, route, processes, engines)
    due = deaths(setup) if route == "stock" else {}
    yield from verdicts.rows(run, engines, report, reference, due)
    if route != "stock":
        yield hook_row(run, report, processes)


def reference_row(reference: dict[tuple[str, str], Any]) -> Row:
    """Whether the tokens that all are held to depend on each picture."""
    base = reference["qwen3vl", key_of(scenarios.MANY_LARGE[0])]
    changed = [reference["qwen3vl", key_of(request)] for request in scenarios.EXCHANGED]
    return Row("reference", "large card", "exchanged", *verdicts.sensitivity(changed, base))


def all_rows(setup: Setup, stages: Iterable[str], minutes: float) -> Iterator[Row]:
    """Run the reference and the stages asked for."""
    reference = reference_answers(setup)
    yield reference_row(reference)
    for stage in stages:
        if stage in serve_load.SERVERS:
            yield from serve_load.rows(setup, stage, reference, minutes)
        else:
            yield from stage_rows(setup, stage, reference)


def main() -> int:
    """The command."""
    known = [*STAGES, *serve_load.SERVERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.environ.get("GAUDI_FIXES_ROOT"), help="or GAUDI_FIXES_ROOT")
    parser.add_argument("--python", default=os.environ.get("GAUDI_REAL_PYTHON"), help="or GAUDI_REAL_PYTHON")
    parser.add_argument("--work", type=Path, help="keeps models, caches, logs and results; else a temporary folder")
    parser.add_argument("--only", default=",".join(known), help="stages, of: " + ", ".join(known))
    parser.add_argument("--minutes", type=float, default=3.0, help="how long each server is under load")
    options = parser.parse_args()
    stages = options.only.split(",")
    if unknown := set(stages) - set(known):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")
    try:
        work = options.work or Path(tempfile.mkdtemp(prefix="gaudi-shadow-real-"))
        setup = find(options.root, options.python, work.resolve())
    except Missing as error:
        print(f"tests/real: {error}", file=sys.stderr)
        return 2
    print(f"vLLM {setup.vllm_version}, results in {setup.work}", file=sys.stderr)
    wrong, start = 0, time.monotonic()
    print("| right | run | engine | step | what happened |\n| --- | --- | --- | --- | --- |")
    for row in all_rows(setup, stages, options.minutes):
        wrong += not row.is_right
        print(
            f"| {'yes' if row.is_right else '**NO**'} | {row.run} | {row.engine} | {row.step} | {row.result} |",
            flush=True,
        )
    print(f"\n{wrong} not as they should be; {(time.monotonic() - start) / 60:.1f} minutes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
