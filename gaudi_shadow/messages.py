"""What we say, and where: refusals on stderr, news in vLLM's log. Never on stdout, which belongs to the program."""

from __future__ import annotations

import contextlib
import logging
import sys

_said: set[str] = set()


def one_line(text: str) -> str:
    """The text on one line, and without what a terminal would obey: file names and error texts are not ours."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """The text with its spaces; what is not printable, line ends included, as `ascii` shows it."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def write_error(text: str) -> None:
    """Write one line to stderr. Never raises, and never writes elsewhere: stderr may be closed, full or None."""
    line = printable(text)
    with contextlib.suppress(Exception):
        try:
            sys.stderr.write(line + "\n")
        except UnicodeEncodeError:
            sys.stderr.write(ascii(line)[1:-1] + "\n")
        sys.stderr.flush()


def warn_once(text: str) -> None:
    """As `write_error`, once in a process."""
    line = "gaudi-shadow: " + one_line(text)
    if line in _said:
        return
    _said.add(line)
    write_error(line)


def logger() -> logging.Logger:
    """A child of vLLM's logger, so that its handlers and level apply."""
    return logging.getLogger("vllm.gaudi_shadow")
