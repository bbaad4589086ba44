"""The plan as one structure, which JSON prints as it is and table.py lays out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from gaudi_shadow.fixes.mm_encoder_budget import VARIABLE
from gaudi_shadow.planning.calls import Call, advised_budget, budgets_worth_a_look, calls_under, peak_of
from gaudi_shadow.planning.items import Item
from gaudi_shadow.planning.memory import Setting, formula_lines, transient_bytes
from gaudi_shadow.planning.model_folder import Model
from gaudi_shadow.planning.resize import LONGEST_TO_SHORTEST, ResizeRules

CLOSE = 1.05
UNPROVEN = "an estimate: counted on vLLM's own tower on a CPU, unproven on an HPU (docs/plan.md)"


def plan_of(model: Model, items: Sequence[Item], setting: Setting, budget: int) -> dict[str, Any]:
    """Everything that plan tells.

    Args:
        model: how it resizes, and its tower.
        items: of the request, in order.
        setting: how the tower is run.
        budget: patches; 0 when none was asked about.
    """
    budgets = [_under(each, model, items, setting) for each in budgets_worth_a_look(items, budget)]
    return {
        "model": {
            "family": model.family.title,
            "image": asdict(model.image),
            "video": asdict(model.video),
            "tower": model.tower and asdict(model.tower),
            "notes": _notes(model),
        },
        "items": _items(items),
        "patches": sum(item.patches for item in items),
        "tokens": sum(item.tokens for item in items),
        "budgets": budgets,
        "budget": budget,
        "calls": _calls(calls_under(items, budget)) if budget else [],
        "advice": _advice(model, items, budget, budgets),
        "estimate": _estimate(model, setting),
    }


def _notes(model: Model) -> list[str]:
    without_folder = model.tower is None and model.family.tower is not None
    return [*model.family.notes, *(["no estimate of memory: it needs --model, a folder"] if without_folder else [])]


def _items(items: Sequence[Item]) -> list[dict[str, Any]]:
    runs = [list(run) for _, run in groupby(items)]
    return [
        {
            **asdict(run[0].asked),
            "count": len(run),
            "grid": [run[0].grid.t, run[0].grid.h, run[0].grid.w],
            "patches": run[0].patches,
            "tokens": run[0].tokens,
        }
        for run in runs
    ]


def _under(budget: int, model: Model, items: Sequence[Item], setting: Setting) -> dict[str, Any]:
    calls = calls_under(items, budget)
    row: dict[str, Any] = {
        "budget": budget,
        "calls": len(calls),
        "largest_call_patches": max(call.patches for call in calls),
    }
    if model.tower:
        peak = peak_of(calls, model.tower, setting)
        largest = max(transient_bytes(model.tower, setting, call.patches, call.longest_sequence) for call in calls)
        row |= {"largest_call_bytes": largest, "peak_bytes": peak.total, "results_at_peak_bytes": peak.results}
    return row


def _calls(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Calls that are alike in a row are told once, with their count."""
    told: list[dict[str, Any]] = []
    for call in calls:
        entry = {"patches": call.patches, "items": [str(item.asked) for item in call.items]}
        if told and told[-1]["each"] == entry:
            told[-1]["count"] += 1
        else:
            told.append({"count": 1, "each": entry})
    return told


def _advice(model: Model, items: Sequence[Item], budget: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    advised = advised_budget(items)
    largest = max(items, key=lambda item: item.patches)
    lines = [
        f"{VARIABLE}={advised} is what the largest item puts through, {largest.asked}: then no call is larger. "
        "A smaller budget does not help that item, which runs alone and whole all the same"
    ]
    lines += _fewer_calls(rows, advised)
    if 0 < budget < advised:
        lines.append(f"the budget of {budget:,} is below it: the largest call stays at {advised:,} patches")
    if (ceiling := most_patches_of_an_image(model.image)) is not None and ceiling > advised:
        lines.append(
            f"{VARIABLE}={ceiling} is what this model's processor makes of an image at the most, whatever its size"
        )
    return {"budget": advised, "lines": lines, "warm_up": _warm_up(items, budget or advised)}


def _fewer_calls(rows: Sequence[dict[str, Any]], advised: int) -> Iterator[str]:
    """Where the results outweigh the calls, a larger budget costs little memory and saves calls."""
    (least,) = (row for row in rows if row["budget"] == advised)
    close = [
        row for row in rows if row["budget"] and row.get("peak_bytes", math.inf) <= CLOSE * least.get("peak_bytes", 0)
    ]
    if close and close[0]["calls"] < least["calls"]:
        more = close[0]["peak_bytes"] / least["peak_bytes"] - 1
        yield (
            f"a budget of {close[0]['budget']} peaks {more:.1%} higher, with {close[0]['calls']:,} calls "
            f"for {least['calls']:,}"
        )


def most_patches_of_an_image(rules: ResizeRules) -> int | None:
    """The most patches that an image of any size comes to; None where the limit on pixels does not bound it."""
    side, other = math.sqrt(rules.min_pixels * LONGEST_TO_SHORTEST), math.sqrt(rules.min_pixels / LONGEST_TO_SHORTEST)
    enlarged = (side + rules.unit) * (other + rules.unit)
    if rules.max_pixels < max(LONGEST_TO_SHORTEST * rules.unit**2, enlarged):
        return None
    return rules.max_pixels // rules.unit**2 * rules.merge_size**2


def _warm_up(items: Sequence[Item], budget: int) -> str:
    """What to warm so that warm-up, which knows no budget, makes no call that the budget would not."""
    most: dict[str, int] = {}
    for call in calls_under(items, budget):
        for item in call.items:
            if item.asked.modality == "image":
                size = f"{item.asked.width}x{item.asked.height}"
                most[size] = max(most.get(size, 0), sum(each.asked == item.asked for each in call.items))
    counted = [f"{size}x{count}" if count == 1 else f"{size}x1-{count}" for size, count in most.items()]
    return f"VLLM_MULTIMODAL_RESOLUTIONS={','.join(counted)}" if counted else ""


def _estimate(model: Model, setting: Setting) -> dict[str, Any] | None:
    if model.tower is None:
        return None
    return {**asdict(setting), "formula": formula_lines(model.tower, setting), "note": UNPROVEN}
