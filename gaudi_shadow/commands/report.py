"""`gaudi-shadow report`: what a bug report needs, and nothing personal."""

from __future__ import annotations

import argparse

from gaudi_shadow.commands.check import ROOT_HELP

HELP = "print what a bug report needs: versions, fingerprints and states; no paths, no names, no values but our own"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Only --root."""
    parser.add_argument("--root", metavar="DIR", help=ROOT_HELP)


def execute(args: argparse.Namespace) -> int:
    """Print it; exit 0, whatever the states are."""
    from gaudi_shadow.inspection.checking import make_report
    from gaudi_shadow.inspection.reporting import bug_report

    print(bug_report(make_report(root=args.root)))
    return 0
