"""`gaudi-shadow report`."""

from __future__ import annotations

import argparse

HELP = "not written yet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""


def execute(args: argparse.Namespace) -> int:
    """Run it."""
    raise NotImplementedError
