"""`gaudi-shadow path`: the folder for PYTHONPATH."""

from __future__ import annotations

import argparse

from gaudi_shadow.inject_folder import inject_folder

HELP = "print the folder that activates the hook when it is on PYTHONPATH"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def execute(args: argparse.Namespace) -> int:
    """Print it."""
    print(inject_folder())
    return 0
