"""The command line: `gaudi-shadow` and `python -m gaudi_shadow`. Each command lives in gaudi_shadow/commands/."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import gaudi_shadow
from gaudi_shadow.commands import UsageError

COMMANDS = ("check", "status", "show", "diff", "run", "path", "demo", "plan", "releases", "verify", "report")
USAGE_ERROR = 64


class _Parser(argparse.ArgumentParser):
    """argparse exits with 2 on a usage error, which here means that the source has drifted, and says it in two lines."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see '{self.prog} --help'\n")


def build_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser for some commands. The whole one is what the command reference in docs/ is held against."""
    parser = _Parser(prog="gaudi-shadow", description="Fixes for vllm-gaudi, applied when it is imported.")
    parser.add_argument("--version", action="version", version=f"gaudi-shadow {gaudi_shadow.__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in commands:
        command = import_module(f"gaudi_shadow.commands.{name}")
        command_parser = subparsers.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(command_parser)
        command_parser.set_defaults(execute=command.execute)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The command's exit code; 64 for a usage or an internal error, so that neither reads as drift; 130 and 141, as
        a shell has them, after an interrupt and when the reader of stdout has gone.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # One command's module is imported and no other: `run` starts fast, and a damaged module stops its command only.
    named = [each for each in arguments[:1] if each in COMMANDS]
    shown = " ".join(["gaudi-shadow", *named])
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Paths and source texts go out byte for byte, whatever the locale.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        args = build_parser(named or COMMANDS).parse_args(arguments)
        code: int = args.execute(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read stdout has gone (`| head`); what is left must not be flushed into nothing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except UsageError as error:
        print(f"{shown}: {error}", file=sys.stderr)
    except Exception as error:
        print(f"{shown}: {type(error).__name__}: {error}", file=sys.stderr)
    return USAGE_ERROR
