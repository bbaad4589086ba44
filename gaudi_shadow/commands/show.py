"""`gaudi-shadow show`: the full patched copy of a module."""

from __future__ import annotations

import argparse

from gaudi_shadow.commands.check import ROOT_HELP

HELP = "print the full patched copy of a module of the installed release"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODULE and --root."""
    parser.add_argument("module", metavar="MODULE", help="vllm_gaudi.models.utils or vllm_gaudi/models/utils.py")
    parser.add_argument("--root", metavar="DIR", help=ROOT_HELP)


def execute(args: argparse.Namespace) -> int:
    """Print the text; where the module cannot be patched, say why and exit as `check` would."""
    from gaudi_shadow.inspection.patched import composed, module_name

    module = module_name(args.module)
    texts, code = composed([module], args.root)
    for text in texts.values():
        print(text["patched"], end="")
    return code
