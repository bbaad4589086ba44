"""`gaudi-shadow run -- COMMAND ...`: start a command with the hook on PYTHONPATH."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Mapping

from gaudi_shadow.commands import UsageError
from gaudi_shadow.inject_folder import inject_folder

HELP = "run a command with the hook on PYTHONPATH"
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell has them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """COMMAND and its arguments."""
    parser.usage = "%(prog)s [-h] -- COMMAND ..."
    parser.add_argument(
        "command_line", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="the command and its arguments"
    )


def with_hook(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """An environment whose PYTHONPATH begins with `folder`; the user's own entries stay letter for letter.

    An empty entry would put the current folder on sys.path, so no separator is added beside nothing.

    Raises:
        UsageError: `folder` holds the separator, so that PYTHONPATH cannot name it.
    """
    if os.pathsep in folder:
        raise UsageError(f"{folder} holds {os.pathsep!r}, so PYTHONPATH cannot name it; move gaudi-shadow")
    users = environ.get("PYTHONPATH", "")
    if users.split(os.pathsep)[0] == folder:
        return dict(environ)
    return {**environ, "PYTHONPATH": folder + os.pathsep + users if users else folder}


def execute(args: argparse.Namespace) -> int:
    """Become the command; returns only when it cannot be started."""
    command = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not command:
        raise UsageError("no command is given; write gaudi-shadow run -- COMMAND ...")
    if not command[0]:
        return _cannot_start("''", "command not found", NOT_FOUND)
    environment = with_hook(os.environ, inject_folder())
    _restore_signals()
    try:
        os.execvpe(command[0], command, environment)
    except (FileNotFoundError, NotADirectoryError):
        return _cannot_start(command[0], "command not found", NOT_FOUND)
    except OSError as error:
        return _cannot_start(command[0], error.strerror or str(error), NOT_EXECUTABLE)


def _restore_signals() -> None:
    """Python ignores these; what it execs would inherit that, and `COMMAND | head` would not end quietly."""
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def _cannot_start(name: str, why: str, code: int) -> int:
    from gaudi_shadow.messages import write_error

    write_error(f"gaudi-shadow run: {name}: {why}")
    return code
