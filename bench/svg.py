"""Two kinds of chart as SVG: horizontal bars and lines. Knows numbers and words only, not what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

COLOURS = ("#1f6feb", "#d1495b", "#2a9d8f", "#8d6a9f", "#c98a1b", "#6b7280")
INK, FAINT, PAPER = "#1f2328", "#d0d7de", "#ffffff"
WIDTH = 760


class Bar(NamedTuple):
    """One bar: its name, its length, the words behind it, and which colour."""

    name: str
    value: float
    words: str
    colour: int = 0


class Line(NamedTuple):
    """One line: its name, its points, and whether it is dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


class Axis(NamedTuple):
    """One axis: its title, the ticks with their words, and whether it is logarithmic."""

    title: str
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def scale(self, start: float, end: float) -> Callable[[float], float]:
        """Where a value lies between two ends in pixels, the first and the last tick being the ends."""
        low, high = (self._position(self.ticks[i][0]) for i in (0, -1))
        return lambda value: start + (self._position(value) - low) / (high - low) * (end - start)

    def _position(self, value: float) -> float:
        return math.log(value) if self.log else value


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 13, weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style} fill="{INK}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = FAINT) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _document(height: float, title: str, note: str, parts: Iterable[str]) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    font = 'font-family="DejaVu Sans, Verdana, sans-serif"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="{PAPER}"/>',
            _text(20, 28, title, size=16, weight="bold"),
            *(_text(20, height - 14 * (n + 1), line, size=11) for n, line in enumerate(reversed(note.split("\n")))),
            *parts,
            "</svg>\n",
        ]
    )


def bars(title: str, note: str, axis: Axis, rows: Sequence[Bar]) -> str:
    """Horizontal bars from the axis' first tick on."""
    left, right, top, step = 230, WIDTH - 130, 56, 27
    bottom = top + step * len(rows) + 4
    scale = axis.scale(left, right)
    parts = []
    for value, words in axis.ticks:
        parts += [_line(scale(value), top - 4, scale(value), bottom), _text(scale(value), bottom + 18, words, "middle")]
    for number, row in enumerate(rows):
        y = top + step * number
        length = max(1.0, scale(row.value) - left)
        colour = COLOURS[row.colour]
        parts.append(_text(left - 8, y + 15, row.name, "end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{step - 7}" fill="{colour}"/>')
        parts.append(_text(left + length + 6, y + 15, row.words))
    parts.append(_text((left + right) / 2, bottom + 40, axis.title, "middle"))
    return _document(bottom + 88, title, note, parts)


def lines(title: str, note: str, across: Axis, up: Axis, drawn: Sequence[Line]) -> str:
    """Lines with a dot at each point, and a legend at the right."""
    left, right, top, bottom = 84, WIDTH - 190, 56, 350
    x, y = across.scale(left, right), up.scale(bottom, top)
    parts = []
    for value, words in across.ticks:
        parts += [_line(x(value), top, x(value), bottom), _text(x(value), bottom + 19, words, "middle")]
    for value, words in up.ticks:
        parts += [_line(left, y(value), right, y(value)), _text(left - 8, y(value) + 4, words, "end")]
    for number, line in enumerate(drawn):
        colour = COLOURS[number]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line.points)
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"{dashes}/>')
        parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3.4" fill="{colour}"/>' for a, b in line.points]
        key = top + 10 + 24 * number
        ends = f'x1="{right + 16}" y1="{key}" x2="{right + 40}" y2="{key}"'
        parts.append(f'<line {ends} stroke="{colour}" stroke-width="3"{dashes}/>')
        parts.append(_text(right + 46, key + 4, line.name))
    parts.append(_text((left + right) / 2, bottom + 42, across.title, "middle"))
    parts.append(_text(left - 60, top - 12, up.title))
    return _document(bottom + 90, title, note, parts)
