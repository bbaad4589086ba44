"""The plan as one structure, which JSON prints as it is and table.py lays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from gaudi_shadow.planning.advice import advice_for
from gaudi_shadow.planning.calls import Call, budgets_worth_a_look, calls_under, peak_of
from gaudi_shadow.planning.items import Item
from gaudi_shadow.planning.memory import Setting, formula_lines, transient_bytes
from gaudi_shadow.planning.model_folder import Model

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
        "advice": advice_for(model.image, items, budget, budgets),
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


def _estimate(model: Model, setting: Setting) -> dict[str, Any] | None:
    if model.tower is None:
        return None
    return {**asdict(setting), "formula": formula_lines(model.tower, setting), "note": UNPROVEN}
