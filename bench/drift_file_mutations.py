"""Mutations of a module's file: line ends, byte order marks, declared encodings, tabs, form feeds, truncation."""

from __future__ import annotations

import random

from drift_target import Mutation, Target


def line_ends(target: Target, dice: random.Random) -> bytes:
    """Every line end \\r\\n, or \\r."""
    return target.text.replace("\n", dice.choice(("\r\n", "\r"))).encode()


def mixed_line_ends(target: Target, dice: random.Random) -> bytes:
    """Line ends of all three kinds; none merges with that of an empty line behind it."""
    following = [*target.lines[1:], ""]
    ends = [dice.choice(("\n", "\r\n", "\r") if line else ("\n", "\r\n")) for line in following]
    return "".join(line + end for line, end in zip(target.lines, ends, strict=True)).encode()


def byte_order_mark(target: Target, dice: random.Random) -> bytes:
    """A byte order mark before the first line."""
    return b"\xef\xbb\xbf" + target.text.encode()


def latin_1(target: Target, dice: random.Random) -> bytes:
    """A latin-1 file with umlauts in a comment above the function and in one at the module's end."""
    lines = ["# -*- coding: latin-1 -*-", *target.lines]
    lines.insert(target.first, target.indent + "# gr\xf6\xdfer")
    return "\n".join([*lines, "# \xe4\xf6\xfc", ""]).encode("latin-1", "replace")


def latin_1_inside(target: Target, dice: random.Random) -> bytes:
    """A latin-1 file with an umlaut in a string of the function."""
    statement = dice.choice(target.statements())
    lines = list(target.lines)
    lines.insert(statement.lineno - 1, " " * statement.col_offset + "'\xe4\xf6\xfc'")
    return "\n".join(["# -*- coding: latin-1 -*-", *lines]).encode("latin-1", "replace")


def wrong_encoding(target: Target, dice: random.Random) -> bytes:
    """A declaration that the bytes contradict, or of a codec that does not exist, or utf-16."""
    if dice.random() < 0.2:
        return target.text.encode("utf-16")
    declared = dice.choice(("ascii", "utf-8", "shift_jis", "no-such-codec", "utf-7", "rot13", "idna"))
    return f"# coding: {declared}\n".encode() + target.text.encode() + "# \xe4\n".encode("latin-1")


def stray_byte(target: Target, dice: random.Random) -> bytes:
    """A byte that is no UTF-8, or a null byte, anywhere."""
    data = target.text.encode()
    at = dice.randrange(len(data))
    return data[:at] + dice.choice((b"\xff", b"\x00", b"\xe4", b"\xc3", b"\x1a")) + data[at:]


def truncated(target: Target, dice: random.Random) -> bytes:
    """The file cut anywhere."""
    data = target.text.encode()
    return data[: dice.randrange(len(data))]


def truncated_in_function(target: Target, dice: random.Random) -> str:
    """The file cut inside the function or just behind it."""
    text = "\n".join(target.lines[: target.last])
    start = len("\n".join(target.lines[: target.first - 1]))
    return text[: dice.randint(start, len(text))]


def no_last_line_end(target: Target, dice: random.Random) -> str:
    """No line end behind the last line."""
    return target.text.rstrip("\n")


def tabs(target: Target, dice: random.Random) -> str:
    """Tabs for the indentation of the function, of its class, or of all."""
    first, last = dice.choice(((target.first, target.last), target.scope, (1, len(target.lines))))
    lines = [_tabbed(line) if first <= number <= last else line for number, line in enumerate(target.lines, start=1)]
    return "\n".join(lines)


def _tabbed(line: str) -> str:
    width = len(line) - len(line.lstrip(" "))
    return "\t" * (width // 4) + " " * (width % 4) + line[width:]


def form_feed_before(target: Target, dice: random.Random) -> str:
    """Form feeds on lines of their own outside the function."""
    lines = list(target.lines)
    lines.insert(target.first - 1, "\x0c")
    return "\n".join(lines)


def form_feed_anywhere(target: Target, dice: random.Random) -> str:
    """A form feed before a line of the function, or in it."""
    lines = target.own_lines()
    row = dice.randrange(len(lines))
    at = dice.choice((0, len(lines[row]) - len(lines[row].lstrip()), len(lines[row])))
    lines[row] = lines[row][:at] + "\x0c" + lines[row][at:]
    return target.with_function(lines)


def continuation(target: Target, dice: random.Random) -> str:
    """A line of the function broken by a backslash at a space, with or without a blank line behind it."""
    lines = target.own_lines()
    rows = [row for row, line in enumerate(lines) if " " in line.strip()]
    row = dice.choice(rows)
    spaces = [at for at, character in enumerate(lines[row]) if character == " " and lines[row][:at].strip()]
    at = dice.choice(spaces)
    lines[row : row + 1] = [lines[row][:at] + " \\", *dice.choice(([], [""])), lines[row][at:]]
    return target.with_function(lines)


def continuation_above(target: Target, dice: random.Random) -> str:
    """A statement continued by a backslash directly above the function's class or the function."""
    lines = list(target.lines)
    lines.insert(target.scope[0] - 1 if target.owner else target.first - 1, "_mutant = 1 + \\\n    1; _mutant += 1")
    return "\n".join(lines)


FILES = [
    Mutation("line ends", line_ends, 2, neutral=True),
    Mutation("mixed line ends", mixed_line_ends, 2, neutral=True),
    Mutation("byte order mark", byte_order_mark, neutral=True),
    Mutation("latin-1", latin_1, 2, neutral=True),
    Mutation("latin-1 inside", latin_1_inside),
    Mutation("wrong encoding", wrong_encoding, 2),
    Mutation("stray byte", stray_byte, 3),
    Mutation("truncated", truncated, 4),
    Mutation("truncated in the function", truncated_in_function, 3),
    Mutation("no last line end", no_last_line_end, neutral=True),
    Mutation("tabs", tabs, 2),
    Mutation("form feed before", form_feed_before, neutral=True),
    Mutation("form feed inside", form_feed_anywhere, 2),
    Mutation("line continuation inside", continuation, 4),
    Mutation("line continuation above", continuation_above, neutral=True),
]
