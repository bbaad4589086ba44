"""The text of a function, and its fingerprint: a hash that is the same on every Python version.

tokens, ast.dump and ast.unparse differ between Python versions; the text with its comments cut does not.
"""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from itertools import islice

# FSTRING_START is Python 3.12's, TSTRING_START 3.14's; before them such a string is one STRING token.
_STRING_STARTS = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")}
_STRING_ENDS = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")}


class UnreadableBlock(ValueError):
    """The text at a line is not one whole function definition."""


def plain_lines(source: str) -> list[str]:
    """The lines of a module without a byte order mark and with one kind of line end, as the compiler counts them."""
    text = io.IncrementalNewlineDecoder(None, translate=True).decode(source.removeprefix("\ufeff"), final=True)
    return text.split("\n")


def function_block(lines: list[str], first: int) -> list[str]:
    """The lines of the function definition, decorators included, that starts at line `first` (counted from 1).

    Args:
        lines: a module as `plain_lines` gives it.
        first: `co_firstlineno` of the function: its first decorator, or its `def`.

    Raises:
        UnreadableBlock: no function definition starts there, or it cannot be tokenized to its end.
    """
    return _scanned(lines[first - 1 :])[0]


def function_text(source: str, first: int) -> tuple[list[str], str]:
    """`function_block` and its canonical text in one pass, without splitting the whole module into lines.

    Raises:
        UnreadableBlock: as `function_block`.
    """
    lines = islice(io.StringIO(source.removeprefix("\ufeff"), newline=None), first - 1, None)
    block, tokens = _scanned(line.removesuffix("\n") for line in lines)
    return block, _canonical(block, tokens)


def canonical_text(block: list[str]) -> str:
    """The block dedented, without comments and without blank lines outside strings; the content of strings stays.

    Raises:
        UnreadableBlock: the block is not one whole function definition.
    """
    return _canonical(*_scanned(block))


def _scanned(lines: Iterable[str]) -> tuple[list[str], list[tokenize.TokenInfo]]:
    """The lines of the definition that the first line starts, and their tokens."""
    read: list[str] = []
    tokens: list[tokenize.TokenInfo] = []

    def following() -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield line + "\n"

    part, depth, last = "start", 0, 0
    following_lines = following()
    try:
        for token in tokenize.generate_tokens(lambda: next(following_lines, "")):
            tokens.append(token)
            if token.type in (tokenize.COMMENT, tokenize.NL):
                continue
            if token.type == tokenize.NEWLINE:
                last = token.start[0]
            if part == "start":
                if token.type == tokenize.INDENT:
                    continue
                if token.string not in ("@", "def", "async"):
                    raise UnreadableBlock("no function starts there")
                part = "decorator" if token.string == "@" else "header"
            elif part == "decorator" and token.type == tokenize.NEWLINE:
                part = "start"
            elif part == "header" and token.type == tokenize.NEWLINE:
                part = "after header"
            elif part == "after header":
                if token.type != tokenize.INDENT:
                    break
                part, depth = "body", 1
            elif part == "body":
                depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
                if depth == 0:
                    break
    except (tokenize.TokenError, SyntaxError) as error:
        # A block that ends at an indentation which starts before it is whole: the tokenizer saw only its own lines.
        if not (part == "body" and isinstance(error, IndentationError)):
            raise UnreadableBlock(str(error)) from error
    if part not in ("after header", "body"):
        raise UnreadableBlock("no whole function starts there")
    # Up to 3.11 tokenize takes such a line for the end of a block, and the compiler goes on behind it.
    if any(line.strip() == "\\" for line in read):
        raise UnreadableBlock("a line holds nothing but a backslash")
    return read[:last], tokens


def _canonical(block: list[str], tokens: list[tokenize.TokenInfo]) -> str:
    inside: set[int] = set()
    comment_columns: dict[int, int] = {}
    open_strings: list[int] = []
    for token in tokens:
        if token.type == tokenize.COMMENT:
            comment_columns[token.start[0]] = token.start[1]
        elif token.type in _STRING_STARTS:
            open_strings.append(token.start[0])
        elif token.type in _STRING_ENDS:
            inside.update(range(open_strings.pop() + 1, token.end[0] + 1))
        elif token.type == tokenize.STRING:
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    kept: list[str] = []
    for row, line in enumerate(block, start=1):
        text = line[: comment_columns.get(row, len(line))]
        if row not in inside:
            text = text.removeprefix(indent)
        if row + 1 not in inside:
            text = text.rstrip()
        # Behind a backslash a blank line ends the statement.
        if text or row in inside or row + 1 in inside or (kept and kept[-1].endswith("\\")):
            kept.append(text)
    return "\n".join(kept)


def without_strings(text: str) -> str:
    """A canonical text whose string literals are empty; what an f-string computes goes with it.

    Raises:
        UnreadableBlock: it is not one whole function definition.
    """
    lines, tokens = _scanned(text.split("\n"))
    starts: list[tuple[int, int]] = []
    spans: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for token in tokens:
        if token.type in _STRING_STARTS:
            starts.append(token.start)
        elif token.type in _STRING_ENDS:
            spans.append((starts.pop(), token.end))
        elif token.type == tokenize.STRING and not starts:
            spans.append((token.start, token.end))
    for (first, begin), (last, end) in sorted(spans, reverse=True):
        if last <= len(lines):
            lines[first - 1 : last] = [lines[first - 1][:begin] + "''" + lines[last - 1][end:]]
    return "\n".join(lines)


def hash_of(text: str) -> str:
    """`sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(block: list[str]) -> str:
    """The hash of `canonical_text(block)`.

    Raises:
        UnreadableBlock: the block cannot be tokenized.
    """
    return hash_of(canonical_text(block))
