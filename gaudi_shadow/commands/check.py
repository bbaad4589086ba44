"""`gaudi-shadow check`: are the fixes applied in a new interpreter?"""

from __future__ import annotations

import argparse
import json
from typing import Any

HELP = "tell whether the fixes are applied in a new interpreter: exit 0 yes, 1 no, 2 the source has drifted"
ROOT_HELP = "look for vllm_gaudi here first: a site-packages folder, a release tree or a zip file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FIX ..., --root and --json."""
    parser.add_argument("fixes", nargs="*", metavar="FIX", help="a fix's name; all fixes when none is given")
    parser.add_argument("--root", metavar="DIR", help=ROOT_HELP)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def print_report(args: argparse.Namespace) -> int:
    """Make the report and print it.

    Returns:
        The report's exit code: the worst of the fixes asked for.
    """
    from gaudi_shadow.inspection.checking import make_report
    from gaudi_shadow.inspection.report_text import report_text

    report: dict[str, Any] = make_report(args.fixes, args.root)
    print(json.dumps(report, indent=2) if args.json else report_text(report))
    code: int = report["exit_code"]
    return code


def execute(args: argparse.Namespace) -> int:
    """Print the report; exit with its code."""
    return print_report(args)
