"""`gaudi-shadow diff`: what the patched copy changes."""

from __future__ import annotations

import argparse

from gaudi_shadow.commands.check import ROOT_HELP
from gaudi_shadow.finder import TARGETS

HELP = "print a unified diff of stock against the patched copy, of one module or of all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODULE and --root."""
    parser.add_argument("module", nargs="?", metavar="MODULE", help="as for show; all target modules when not given")
    parser.add_argument("--root", metavar="DIR", help=ROOT_HELP)


def execute(args: argparse.Namespace) -> int:
    """Print the diffs; where a module cannot be patched, say why and exit as `check` would."""
    from gaudi_shadow.inspection.composing import difference
    from gaudi_shadow.inspection.patched import composed, module_name

    modules = [module_name(args.module)] if args.module else sorted(TARGETS)
    texts, code = composed(modules, args.root)
    for module, text in texts.items():
        print(difference(module, text["stock"], text["patched"]), end="")
    return code
