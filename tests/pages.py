"""The Markdown pages of the repository, taken apart for test_docs.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from conftest import CHECKOUT

PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
COMMAND = re.compile(r"(?:(?:\S*/)?gaudi-shadow|(?:\S*/)?python3? -m gaudi_shadow)(?= |$)")


@dataclass
class Fence:
    """A fenced block: its language, what follows the language ("exit=2"), its lines and where it starts."""

    page: Path
    line: int
    language: str
    words: list[str]
    lines: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


@dataclass(frozen=True)
class Shown:
    """A command line as a page shows it, and the output shown below it."""

    place: str
    arguments: list[str]
    output: list[str]
    exit_code: int


@cache
def parts(page: Path) -> tuple[list[Fence], str]:
    """The fences of a page, and the page without them."""
    fences: list[Fence] = []
    prose: list[str] = []
    inside: Fence | None = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        text = line.strip()
        if inside is not None and text == "```":
            fences.append(inside)
            inside = None
        elif inside is not None:
            inside.lines.append(line)
        elif text.startswith("```"):
            language, *words = text[3:].split() or [""]
            inside = Fence(page, number, language, words)
        else:
            prose.append(line)
    assert inside is None, f"{page}: a block is not closed"
    return fences, "\n".join(prose)


def anchors(page: Path) -> set[str]:
    """What a link may name after '#': the headings, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ +(.+)$", parts(page)[1], re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sections(page: Path, level: int = 2) -> dict[str, str]:
    """Heading of a level -> its text, fences included, up to the next heading of that level."""
    pieces = re.split(rf"^{'#' * level} +(.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def table_rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of each table in a text, headings and rules included."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def arguments_of(line: str) -> list[str] | None:
    """What follows the command's name in a line of shell, up to a pipe or a redirection; None if it is no such line."""
    found = COMMAND.match(line.strip())
    if found is None:
        return None
    words = shlex.split(line.strip()[found.end() :], comments=True)
    ends = [number for number, word in enumerate(words) if re.match(r"[|>;&]", word)]
    return words[: ends[0]] if ends else words


def to_be_run(fence: Fence) -> Iterator[Shown]:
    """The commands of a `console` block: lines that begin with "$ ", each with the output shown below it."""
    code = next((int(word.removeprefix("exit=")) for word in fence.words if word.startswith("exit=")), 0)
    current: Shown | None = None
    for line in fence.lines:
        if line.startswith("$ "):
            if current is not None:
                yield current
            arguments = arguments_of(line[2:])
            assert arguments is not None, f"{fence.place}: only gaudi-shadow is run; show other commands in a sh block"
            current = Shown(fence.place, arguments, [], code)
        else:
            assert current is not None, f"{fence.place}: output before the first command"
            current.output.append(line)
    if current is not None:
        yield current


def to_be_parsed(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Every other command line of ours: in shell blocks, and in code spans that are no synopsis."""
    fences, prose = parts(page)
    for fence in fences:
        if fence.language in ("sh", "bash", "shell"):
            for line in fence.lines:
                for piece in [*re.split(r"&& |; ", line), *re.findall(r"\$\(([^()]*)\)", line)]:
                    arguments = arguments_of(piece)
                    if arguments:
                        yield fence.place, arguments
    for span in re.findall(r"`([^`\n]+)`", prose):
        arguments = None if "[" in span or "..." in span or "COMMAND" in span else arguments_of(span)
        if arguments:
            yield f"{page.relative_to(CHECKOUT)}: `{span}`", arguments
