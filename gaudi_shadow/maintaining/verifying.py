"""The work of `gaudi-shadow verify`: hold every overlay against a tree, and say what to add to which manifest."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from gaudi_shadow import catalog
from gaudi_shadow.decide import decide, judge
from gaudi_shadow.graft import calling_disagreement, unknown_globals
from gaudi_shadow.inspection.checking import exit_code
from gaudi_shadow.inspection.entries import entries, refused
from gaudi_shadow.locate import NotFound
from gaudi_shadow.maintaining.definitions import definition_disagreement
from gaudi_shadow.maintaining.release_tree import ReleaseTree, read_tree
from gaudi_shadow.maintaining.verify_steps import NAME_HERE, UNKNOWN, steps
from gaudi_shadow.manifest import Fix, Overlay, manifest_file
from gaudi_shadow.messages import printable
from gaudi_shadow.outcome import APPLIED, DRIFTED, NOT_NEEDED, Decision, FixOutcome
from gaudi_shadow.release import by_closeness
from gaudi_shadow.stock import StockFunction


def verify(root: str, against: str | None = None, release: str | None = None) -> dict[str, Any]:
    """Hold all overlays against a tree.

    Args:
        root: a folder or zip file that holds vllm_gaudi.
        against: the tree of a release that is patched, for the differences of the functions that drifted.
        release: the tag of `root`, where its own version does not say it.

    Returns:
        A dict that `json` can write; docs/releases.md describes the fields.

    Raises:
        locate.NotFound: one of the trees holds no vllm_gaudi.
    """
    tree = _tree("--root", root)
    other = _tree("--against", against) if against is not None else None
    name = release or _name_of(tree)
    overlays = [catalog.overlay(each) for each in by_closeness(name.removeprefix("v"), catalog.overlay_names())]
    decisions = [
        refused(module, "", DRIFTED, stock, "") if isinstance(stock, str) else decide(stock)
        for module, stock in tree.modules.items()
    ]
    found: dict[str, Any] = {
        "root": root,
        "release": name,
        "modules": [_summary(decision) for decision in decisions],
        "overlays": [entry for overlay in overlays for entry in _entries(overlay, tree)],
        "drifted": _drifted(overlays, decisions, tree, other),
        "add": _additions(name, overlays, decisions, tree),
        "exit_code": exit_code([entry for decision in decisions for entry in entries(decision)]),
    }
    return {**found, "next": steps(found, against is not None)}


def _tree(option: str, root: str) -> ReleaseTree:
    try:
        return read_tree(root)
    except NotFound as error:
        raise NotFound(f"{option}: {error}") from error


def _name_of(tree: ReleaseTree) -> str:
    return UNKNOWN if tree.release.source == "nowhere" else f"v{tree.release.version}"


def _summary(decision: Decision) -> dict[str, Any]:
    return {
        "module": decision.module,
        "file": decision.file,
        "overlay": decision.overlay,
        "patched": decision.code is not None,
        "fixes": {outcome.fix: {"state": outcome.state, "reason": outcome.reason} for outcome in decision.fixes},
    }


def _entries(overlay: Overlay, tree: ReleaseTree) -> Iterator[dict[str, str]]:
    for fix in overlay.fixes.values():
        outcome = _held_against(overlay, fix, tree)
        yield {"overlay": overlay.release, "fix": fix.name, "state": outcome.state, "reason": outcome.reason}


def _held_against(overlay: Overlay, fix: Fix, tree: ReleaseTree) -> FixOutcome:
    stock = tree.modules[fix.module]
    if isinstance(stock, str):
        return FixOutcome(fix.name, fix.function, DRIFTED, stock)
    outcome = judge(fix, stock)
    in_the_way = _in_the_way(overlay, fix, tree) if outcome.state == APPLIED else ""
    return FixOutcome(fix.name, fix.function, DRIFTED, in_the_way) if in_the_way else outcome


def _in_the_way(overlay: Overlay, fix: Fix, tree: ReleaseTree) -> str:
    """Why the overlay's function cannot take the place of the tree's, whatever their bodies do; empty when it can."""
    found, stock = tree.function(fix.module, fix.function), tree.modules[fix.module]
    if found is None or isinstance(stock, str) or stock.code is None:
        return "the tree does not define it"
    try:
        ours = catalog.overlay_function(overlay, fix.module, fix.function)
        block = catalog.overlay_block(overlay, fix.module, fix.function)
    except catalog.BrokenOverlay as error:
        return str(error)
    unknown = ", ".join(unknown_globals(stock.code, ours))
    reasons = [
        calling_disagreement(found.code, ours),
        definition_disagreement(found.block, block),
        f"the overlay's function reads {unknown}, which the module does not define" if unknown else None,
    ]
    return "; ".join(filter(None, reasons))


def _nearest(overlays: list[Overlay], module: str, tree: ReleaseTree) -> Overlay:
    """The first overlay with functions that could take the place of a module's; the first of all when none could."""
    possible = (each for each in overlays if not any(_in_the_way(each, fix, tree) for fix in each.fixes_of(module)))
    return next(possible, overlays[0])


def _drifted(
    overlays: list[Overlay], decisions: list[Decision], tree: ReleaseTree, other: ReleaseTree | None
) -> list[dict[str, str]]:
    """What is to be known about each function that drifted, held against the nearest overlay."""
    functions: dict[tuple[str, str], dict[str, str]] = {}
    for decision in decisions:
        names = {outcome.fix for outcome in decision.fixes if outcome.state == DRIFTED}
        overlay = _nearest(overlays, decision.module, tree)
        for fix in overlay.fixes_of(decision.module) if names else ():
            found = tree.function(fix.module, fix.function)
            known = other.function(fix.module, fix.function) if other is not None else None
            functions[fix.module, fix.function] = {
                "module": fix.module,
                "function": fix.function,
                "fingerprint": found.fingerprint if found is not None else "missing",
                "in_the_way": _in_the_way(overlay, fix, tree),
                "difference": _difference(known, found) if known is not None and found is not None else "",
            }
    return list(functions.values())


def _difference(known: StockFunction, found: StockFunction) -> str:
    """A unified diff of the two texts as their fingerprints see them: no comments, no blank lines."""
    before, after = (f"{printable(function.module.file)}: {function.qualname}" for function in (known, found))
    lines = known.text.split("\n"), found.text.split("\n")
    return "\n".join(difflib.unified_diff(*lines, fromfile=before, tofile=after, lineterm=""))


def _additions(
    name: str, overlays: list[Overlay], decisions: list[Decision], tree: ReleaseTree
) -> dict[str, dict[str, Any]]:
    """Manifest -> what to merge into it: objects key by key, what a list holds at the end of the list there."""
    additions: dict[str, dict[str, Any]] = {}
    for decision in decisions:
        failed = bool(decision.failures)
        overlay = _nearest(overlays, decision.module, tree) if failed else catalog.overlay(decision.overlay)
        states = {outcome.fix: outcome.state for outcome in decision.fixes}
        for fix in overlay.fixes_of(decision.module):
            found = tree.function(fix.module, fix.function)
            stating = next(each for each in map(catalog.overlay, overlay.lineage) if fix.name in each.stated)
            entry = _addition(name, stating.fixes[fix.name], found.fingerprint, states[fix.name]) if found else {}
            if entry:
                fixes = additions.setdefault(manifest_file(stating.release), {"fixes": {}})["fixes"]
                fixes[fix.name] = entry
    return additions


def _addition(name: str, fix: Fix, fingerprint: str, state: str) -> dict[str, Any]:
    is_known = fingerprint in (*fix.fingerprints, *fix.fixed_fingerprints)
    on_record = any(name in seen.releases or (seen.fingerprint == fingerprint and seen.note) for seen in fix.seen)
    if on_record or (state != DRIFTED and name == UNKNOWN):
        return {}
    seen = {"seen": {fingerprint: {"releases": [NAME_HERE if name == UNKNOWN else name]}}}
    return (
        seen if is_known else {"fixed_fingerprints" if state == NOT_NEEDED else "fingerprints": [fingerprint], **seen}
    )
