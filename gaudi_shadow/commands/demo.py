"""`gaudi-shadow demo`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from gaudi_shadow.commands import UsageError
from gaudi_shadow.demo import showing
from gaudi_shadow.fixes.mm_encoder_budget import VARIABLE
from gaudi_shadow.messages import printable, write_error
from gaudi_shadow.outcome import APPLIED, NOT_NEEDED

HELP = "show the faults and the fixes on this machine, stock and patched side by side; needs no Gaudi"
COVERED = "mm-encoder-covered"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    release = parser.add_mutually_exclusive_group()
    release.add_argument(
        "--root", type=Path, metavar="DIR", help="a release: its site-packages or source tree (else the installed one)"
    )
    release.add_argument("--standin", action="store_true", help="use the stand-in release even if a real one is there")
    parser.add_argument("--json", action="store_true", help="print what both interpreters found as JSON")


def execute(args: argparse.Namespace) -> int:
    """Run it. Returns 0 when stock showed the faults and the patched interpreter did not, else 1."""
    if args.root and not args.root.is_dir():
        raise UsageError(f"--root {args.root}: there is no such folder")
    if importlib.util.find_spec("torch") is None:
        write_error("gaudi-shadow demo: needs torch: install it, or gaudi-shadow with its extra [demo]")
        return 1
    with tempfile.TemporaryDirectory(prefix="gaudi-shadow-demo-") as name:
        stage, stock, patched, notes = _play(args, Path(name))
    covered = _covered_state(patched)
    has_covered = covered == APPLIED
    gone = showing.faults_are_gone(stock, patched, has_covered)
    if args.json:
        report = {"release": stage.name, "notes": notes, "stock": stock, "patched": patched, "faults_gone": gone}
        print(json.dumps(report, indent=2))
    else:
        _print_heading(stage, notes, patched)
        _print_table(showing.table(stock, patched, has_covered))
        if not has_covered:
            print(_why_left_out(covered))
        print("the faults are gone" if gone else "NOT as expected: see above")
    return 0 if gone else 1


def _play(args: argparse.Namespace, folder: Path) -> tuple[showing.Stage, dict[str, Any], dict[str, Any], list[str]]:
    notes: list[str] = []
    if not args.standin and (args.root or importlib.util.find_spec("vllm_gaudi") is not None):
        stage = showing.real_stage(args.root.resolve() if args.root else None)
        try:
            stock = showing.run_scenario(stage, folder, patched=False)
            return stage, stock, showing.run_scenario(stage, folder, patched=True), notes
        except showing.DemoFailed as error:
            notes.append(f"{stage.name} cannot be imported on this machine ({error})")
    stage = showing.standin_stage(folder)
    stock = showing.run_scenario(stage, folder, patched=False)
    return stage, stock, showing.run_scenario(stage, folder, patched=True), notes


def _covered_state(patched: dict[str, Any]) -> str:
    modules = (patched["status"] or {"modules": {}})["modules"].values()
    states = (module["fixes"][COVERED]["state"] for module in modules if COVERED in module["fixes"])
    return next(states, "not there")


def _why_left_out(covered: str) -> str:
    if covered == NOT_NEEDED:
        return "an image without data: left out, this release does not have that fault\n"
    return f"an image without data: left out, the fix {COVERED} is {covered}\n"


def _print_heading(stage: showing.Stage, notes: list[str], patched: dict[str, Any]) -> None:
    for note in notes:
        print(printable(f"note: {note}"))
    version = (patched["status"] or {}).get("release")
    print(printable(f"release: {stage.name}; its version reads {version}; {patched['file']}"))
    hook = printable(str(stage.hook))
    print(f"patched: by PYTHONPATH={hook}, {VARIABLE}={showing.BUDGET}; switches set here are left out\n")


def _print_table(rows: list[tuple[str, list[str], list[str]]]) -> None:
    for what, stock, patched in rows:
        print(what)
        for side, lines in (("stock", stock), ("patched", patched)):
            for number, line in enumerate(lines):
                print(f"  {side if number == 0 else '':8} {printable(line)}")
        print()
