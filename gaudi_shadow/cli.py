"""The command line: `gaudi-shadow` and `python -m gaudi_shadow`. Each command lives in gaudi_shadow/commands/."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn, TextIO

import gaudi_shadow
from gaudi_shadow.commands import UsageError

COMMANDS = ("check", "status", "show", "diff", "run", "path", "demo", "plan", "releases", "verify", "report")
USAGE_ERROR = 64


class _Parser(argparse.ArgumentParser):
    """argparse exits with 2 on a usage error, which here means drift, and says it in two lines."""

    def error(self, message: str) -> NoReturn:
        _complain(f"{self.prog}: {message}; see '{self.prog} --help'")
        self.exit(USAGE_ERROR)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """argparse leaves what a command does not know to the parser above, which would name no command."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(_with_value(unknown, list(args or ())))}")
        return known, unknown


def _with_value(unknown: list[str], arguments: list[str]) -> list[str]:
    """A single unknown option with the word behind it: argparse has taken that for something else."""
    behind = arguments[arguments.index(unknown[0]) + 1 :][:1] if unknown[0] in arguments else []
    return [*unknown, *behind] if len(unknown) == 1 and behind and not behind[0].startswith("-") else unknown


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
        code = _execute(arguments, named)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _is_written(sys.stdout)
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except UsageError as error:
        _complain(f"{shown}: {error}")
    except Exception as error:
        is_full = isinstance(error, OSError) and not _is_written(sys.stdout)
        fault = "stdout cannot be written" if is_full else type(error).__name__
        _complain(f"{shown}: {fault}: {error}{_advice(error)}")
    finally:
        _is_written(sys.stderr)
    return USAGE_ERROR


def _execute(arguments: list[str], named: list[str]) -> int:
    try:
        args = build_parser(named or COMMANDS).parse_args(arguments)
    except SystemExit as ended:  # after --help, --version or a usage error
        return int(ended.code or 0)
    code: int = args.execute(args)
    return code


def _advice(error: Exception) -> str:
    is_ours = isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "gaudi_shadow"
    return "; reinstall gaudi-shadow" if is_ours else ""


def _complain(text: str) -> None:
    from gaudi_shadow.messages import write_error  # it brings logging, which `run` has no use for

    write_error(text)


def _is_written(stream: TextIO | None) -> bool:
    """Whether a stream takes what is left. What it does not take is dropped: at exit Python would end with 120."""
    if stream is None:
        return True
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True
