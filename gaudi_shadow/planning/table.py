"""The plan as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaudi_shadow.messages import printable
from gaudi_shadow.planning.units import size_text

WARM_UP = (
    "warm-up calls the tower by itself, outside the budget, and a size without a count is warmed with as many items as "
    "--limit-mm-per-prompt allows, in one call"
)


def as_text(plan: Mapping[str, Any]) -> str:
    """Items, budgets, calls under the budget that was asked about, and what to set."""
    modalities = dict.fromkeys(item["modality"] for item in plan["items"])
    blocks = [
        [f"{plan['model']['family']}", *(_rules_line(name, plan["model"][name]) for name in modalities)],
        list(_columns(_item_rows(plan), left=1)),
        list(_columns(_budget_rows(plan), left=0)),
        list(_call_lines(plan)),
        list(_advice_lines(plan)),
    ]
    return "\n\n".join("\n".join(map(printable, block)) for block in blocks if block)


def _rules_line(modality: str, rules: Mapping[str, Any]) -> str:
    whole = ", all frames together" if rules["counts_frames"] else ""
    return (
        f"{modality}s: patches of {rules['patch_size']} pixels, merged {rules['merge_size']} x {rules['merge_size']}; "
        f"{rules['min_pixels']:,} to {rules['max_pixels']:,} pixels{whole}"
    )


def _item_rows(plan: Mapping[str, Any]) -> Iterator[list[str]]:
    yield ["ITEM", "COUNT", "GRID", "PATCHES", "TOKENS"]
    for item in plan["items"]:
        frames = f"@{item['frames']}" if item["modality"] == "video" else ""
        name = f"{item['modality']} {item['width']}x{item['height']}{frames}"
        grid = "x".join(map(str, item["grid"]))
        yield [name, f"{item['count']:,}", grid, f"{item['patches']:,}", f"{item['tokens']:,}"]
    count = sum(item["count"] for item in plan["items"])
    yield ["all", f"{count:,}", "", f"{plan['patches']:,}", f"{plan['tokens']:,}"]


def _budget_rows(plan: Mapping[str, Any]) -> Iterator[list[str]]:
    estimated = plan["estimate"] is not None
    yield ["BUDGET", "CALLS", "LARGEST CALL", *(["ITS MEMORY", "PEAK OF ALL CALLS"] if estimated else [])]
    for row in plan["budgets"]:
        memory = [size_text(row["largest_call_bytes"]), size_text(row["peak_bytes"])] if estimated else []
        yield [budget_text(row["budget"]), f"{row['calls']:,}", f"{row['largest_call_patches']:,}", *memory]


def budget_text(budget: int) -> str:
    """A budget as it is set, without separators; 0 is how stock runs."""
    return str(budget) if budget else "unset"


def _call_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    if plan["calls"]:
        yield f"calls under {plan['budget']}:"
    for call in plan["calls"]:
        items = list(dict.fromkeys(call["each"]["items"]))
        counted = (f"{call['each']['items'].count(item)} {item}" for item in items)
        yield f"  {call['count']} x {call['each']['patches']:,} patches: {', '.join(counted)}"


def _advice_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    yield "set this budget:"
    yield f"  export {plan['advice']['set']}"
    yield from plan["advice"]["lines"]
    if plan["advice"]["warm_up"]:
        yield f"warm up with {plan['advice']['warm_up']}: {WARM_UP}"
    yield from plan["model"]["notes"]
    if plan["estimate"]:
        yield f"memory is {plan['estimate']['note']}"
        yield from plan["estimate"]["formula"]


def _columns(rows: Iterator[list[str]], left: int) -> Iterator[str]:
    table: Sequence[list[str]] = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
