"""`gaudi-shadow status`: the report of `check`, for looking at."""

from __future__ import annotations

import argparse

from gaudi_shadow.commands.check import add_arguments, print_report

__all__ = ["HELP", "add_arguments", "execute"]

HELP = "print the report of `check` and exit 0 whatever it says"


def execute(args: argparse.Namespace) -> int:
    """Print the report."""
    print_report(args)
    return 0
