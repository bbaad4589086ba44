"""An SVG picture of the estimated peak over the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from gaudi_shadow.planning.table import budget_text
from gaudi_shadow.planning.units import GIB, MIB, size_text

BAR, GAP, LEFT, TOP, HEIGHT, BOTTOM, RIGHT = 64, 36, 76, 104, 300, 108, 24
LEAST_WIDTH = 640
CALL_COLOUR, RESULTS_COLOUR, INK, FAINT = "#1f6f8b", "#a9cfdb", "#222222", "#d8d8d8"
FONT = 'font-family="system-ui, sans-serif"'


def as_svg(plan: Mapping[str, Any]) -> str:
    """One bar for each budget: what the calls before left in the encoder cache, and on it the call's transient memory.

    Args:
        plan: see report.plan_of; it must hold an estimate.
    """
    rows = plan["budgets"]
    width = max(LEAST_WIDTH, LEFT + len(rows) * (BAR + GAP) + RIGHT)
    scale, step = _scale(max(row["peak_bytes"] for row in rows))
    parts = [
        _text(LEFT, 30, f"Peak of the vision tower's memory over the budget, {plan['model']['family']}", size=16),
        _text(LEFT, 52, f"{_request(plan)}: {plan['patches']:,} patches", size=13),
        *_legend(),
        *_axis(width, scale, step),
        *(part for number, row in enumerate(rows) for part in _bar(number, row, scale)),
        _text(
            LEFT,
            TOP + HEIGHT + 66,
            "budget in patches (VLLM_HPU_MM_ENCODER_MAX_PATCHES) and the calls it makes",
            size=12,
        ),
        _text(LEFT, TOP + HEIGHT + 90, f"{plan['estimate']['note']}", size=12),
    ]
    height = TOP + HEIGHT + BOTTOM
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *parts, "</svg>", ""])


def _request(plan: Mapping[str, Any]) -> str:
    listed = [
        f"{item['count']} {item['modality']}{'s' if item['count'] > 1 else ''} of {item['width']}x{item['height']}"
        for item in plan["items"]
    ]
    return listed[0] if len(listed) == 1 else f"{sum(item['count'] for item in plan['items'])} items"


def _scale(top: int) -> tuple[float, float]:
    """Pixels for each byte, and bytes between two lines of the grid: 1, 2 or 5 of some power of ten MiB or GiB."""
    unit = GIB if top >= GIB else MIB
    rough = top / unit / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough) * unit
    return HEIGHT / (math.ceil(top / step) * step), step


def _axis(width: int, scale: float, step: float) -> Iterator[str]:
    for number in range(round(HEIGHT / scale / step) + 1):
        y = TOP + HEIGHT - number * step * scale
        yield f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>'
        yield _text(LEFT - 10, y + 4, _tick(number * step, step), size=12, anchor="end")


def _tick(size: float, step: float) -> str:
    unit, name = (GIB, "GiB") if step >= GIB / 10 else (MIB, "MiB")
    return f"{size / unit:g} {name}" if size else "0"


def _legend() -> Iterator[str]:
    x = LEFT
    for colour, words in ((CALL_COLOUR, "the call while it runs"), (RESULTS_COLOUR, "results of the calls before it")):
        yield f'<rect x="{x}" y="70" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 18, 80, words, size=12)
        x += 190


def _bar(number: int, row: Mapping[str, Any], scale: float) -> Iterator[str]:
    x = LEFT + GAP / 2 + number * (BAR + GAP)
    results, whole = row["results_at_peak_bytes"] * scale, row["peak_bytes"] * scale
    bottom = TOP + HEIGHT
    yield f'<rect x="{x}" y="{bottom - whole:.1f}" width="{BAR}" height="{whole - results:.1f}" fill="{CALL_COLOUR}"/>'
    yield f'<rect x="{x}" y="{bottom - results:.1f}" width="{BAR}" height="{results:.1f}" fill="{RESULTS_COLOUR}"/>'
    middle = x + BAR / 2
    calls = f"{row['calls']:,} call{'s' if row['calls'] > 1 else ''}"
    yield _text(middle, bottom - whole - 6, size_text(row["peak_bytes"]), size=12, anchor="middle")
    yield _text(middle, bottom + 20, budget_text(row["budget"]), size=13, anchor="middle")
    yield _text(middle, bottom + 38, calls, size=12, anchor="middle")


def _text(x: float, y: float, words: str, *, size: int, anchor: str = "start") -> str:
    place = f'x="{x}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} {FONT} font-size="{size}" fill="{INK}">{escape(words)}</text>'
