"""Mutations of a module's text and of its file: characters, tokens, lines, comments, encodings."""

from __future__ import annotations

import io
import random
import re
import tokenize

from drift_target import Mutation, Target

CHARACTERS = "abz_AZ019 .,:;()[]{}'\"#\\=+-*/@!\t\n\r\x0c\x1c\x00\xe4\u2028\ufeff"


def _edited(text: str, dice: random.Random) -> str:
    """One character deleted, inserted, replaced, or exchanged with the next."""
    at, how = dice.randrange(max(1, len(text))), dice.choice("dirx")
    before, here, after = text[:at], text[at : at + 1], text[at + 1 :]
    if how == "d":
        return before + after
    if how == "x":
        return before + after[:1] + here + after[1:]
    return before + dice.choice(CHARACTERS) + (here if how == "i" else "") + after


def character_inside(target: Target, dice: random.Random) -> str:
    """One character of the function."""
    return target.with_function(_edited("\n".join(target.own_lines()), dice).split("\n"))


def character_outside(target: Target, dice: random.Random) -> str:
    """One character of another line."""
    lines, number = list(target.lines), dice.choice(target.outside_lines())
    lines[number - 1] = _edited(lines[number - 1] + "\n", dice).removesuffix("\n")
    return "\n".join(lines)


def characters_anywhere(target: Target, dice: random.Random) -> str:
    """Two to six characters anywhere."""
    text = target.text
    for _ in range(dice.randint(2, 6)):
        text = _edited(text, dice)
    return text


def _lines_mangled(lines: list[str], dice: random.Random) -> list[str]:
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    how = dice.choice(("delete", "double", "exchange", "move", "indent", "dedent", "join", "empty"))
    if how == "delete":
        del lines[at]
    elif how == "double":
        lines.insert(at, lines[at])
    elif how == "exchange":
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "move":
        lines.insert(other, lines.pop(at))
    elif how == "indent":
        lines[at] = dice.choice((" ", "    ", "\t", "\x0c")) + lines[at]
    elif how == "dedent":
        lines[at] = lines[at].removeprefix(dice.choice((" ", "    ")))
    elif how == "join":
        lines[at : at + 2] = [dice.choice(("; ", " ", " \\\n")).join(lines[at : at + 2])]
    else:
        lines[at] = ""
    return lines


def lines_inside(target: Target, dice: random.Random) -> str:
    """A line of the function deleted, doubled, exchanged, moved, indented, joined with a semicolon, ..."""
    return target.with_function(_lines_mangled(target.own_lines(), dice))


def lines_anywhere(target: Target, dice: random.Random) -> str:
    """The same to a line anywhere."""
    return "\n".join(_lines_mangled(list(target.lines), dice))


_OTHER_TOKENS = {"==": "!=", "!=": "==", "+": "-", "-": "+", "=": "+=", "and": "or", "or": "and", "not": "bool",
                 "is": "==", "in": "not in", "0": "1", "1": "1.0", "True": "False", "None": "...", "if": "while",
                 "return": "yield", "for": "async for", "def": "async def", "(": "[", ":": ":=", "[": "("}  # fmt: skip


def token_inside(target: Target, dice: random.Random) -> str:
    """One name, number, operator or keyword of the function becomes another."""
    lines = target.own_lines()
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO("\n".join(line.expandtabs() for line in lines)).readline)
        if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP)
    ]
    token = dice.choice(tokens)
    row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
    other = _OTHER_TOKENS.get(token.string) or dice.choice(("self", "mutant", token.string + "_", "super()"))
    lines[row] = lines[row][:start] + other + lines[row][end:]
    return target.with_function(lines)


def renamed_inside(target: Target, dice: random.Random) -> str:
    """One name of the function, arguments included, renamed in all of it."""
    text = "\n".join(target.own_lines())
    names = sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text)))
    return target.with_function(re.sub(rf"\b{dice.choice(names)}\b", "mutant", text).split("\n"))


def comment_line(target: Target, dice: random.Random) -> str:
    """A comment line above a statement of the function, at any indentation."""
    comment = dice.choice(("# mutant", "#", "# def x(): \\", "#'''"))
    return _above_statement(target, dice, " " * dice.randrange(12) + comment)


def blank_line(target: Target, dice: random.Random) -> str:
    """A blank line, or one of white space, above a statement of the function."""
    return _above_statement(target, dice, dice.choice(("", "    ", "\t", "  \x0c ", "\n\n")))


def _above_statement(target: Target, dice: random.Random, line: str) -> str:
    lines = list(target.lines)
    statement = dice.choice([s for s in target.statements() if not getattr(s, "decorator_list", None)])
    lines.insert(statement.lineno - 1, line)
    return "\n".join(lines)


def row_anywhere(target: Target, dice: random.Random) -> str:
    """A blank line or a comment line anywhere in the function: in a string, behind a backslash, in brackets."""
    lines = target.own_lines()
    lines.insert(dice.randint(1, len(lines)), dice.choice(("", "   ", "\x0c", "# mutant", "    # mutant \\")))
    return target.with_function(lines)


def trailing_comment(target: Target, dice: random.Random) -> str:
    """A comment, or spaces, behind a statement of the function."""
    lines, statement = list(target.lines), dice.choice(target.statements())
    lines[(statement.end_lineno or 0) - 1] += dice.choice(("  # mutant", "   ", "\t", "#'", "  # \\"))
    return "\n".join(lines)


def without_comments(target: Target, dice: random.Random) -> str:
    """Every comment line of the function removed; where it has none, one added."""
    lines = target.own_lines()
    rows = [row for row in _comment_rows(lines) if lines[row].lstrip().startswith("#")]
    if not rows:
        return comment_line(target, dice)
    return target.with_function([line for row, line in enumerate(lines) if row not in rows])


def _comment_rows(lines: list[str]) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline)
    return {token.start[0] - 1 for token in tokens if token.type == tokenize.COMMENT}


def outside_appended(target: Target, dice: random.Random) -> str:
    """Something at the module's end that has nothing to do with the function."""
    extra = ("# end", "_mutant = 1", "def _mutant():\n    return 1", "import os as _mutant", "\n\n", "if 1:\n    pass")
    return target.text + "\n" + dice.choice(extra) + "\n"


TEXT = [
    Mutation("character inside", character_inside, 14),
    Mutation("character outside", character_outside, 8),
    Mutation("characters anywhere", characters_anywhere, 4),
    Mutation("lines inside", lines_inside, 12),
    Mutation("lines anywhere", lines_anywhere, 6),
    Mutation("token inside", token_inside, 12),
    Mutation("name inside", renamed_inside, 6),
    Mutation("comment line inside", comment_line, 3, neutral=True),
    Mutation("blank line inside", blank_line, 3, neutral=True),
    Mutation("blank or comment row inside", row_anywhere, 6),
    Mutation("comment behind a statement", trailing_comment, 3, neutral=True),
    Mutation("comment lines removed", without_comments, 2, neutral=True),
    Mutation("appended outside", outside_appended, 3, neutral=True),
]
