"""What an interpreter has: the hook, the release, and what would become of each fix. Executes nothing of vllm_gaudi."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.machinery import ModuleSpec
from typing import Any, NamedTuple

from gaudi_shadow import catalog, locate, record
from gaudi_shadow.decide import ASK, REINSTALL, decide
from gaudi_shadow.finder import TARGETS, installed_finder, is_strict
from gaudi_shadow.inspection.composing import patched_text
from gaudi_shadow.inspection.entries import all_refused, entries, refused
from gaudi_shadow.inspection.hook_state import HookState, hook_state
from gaudi_shadow.loader import with_parts_loaded
from gaudi_shadow.manifest import BrokenManifest
from gaudi_shadow.outcome import DRIFTED, FAILURES, NOT_APPLIED, Decision, with_state
from gaudi_shadow.release import Release, release_at
from gaudi_shadow.stock import StockModule
from gaudi_shadow.switches import disabled_fixes, settings_lines

PACKAGE = "vllm_gaudi"
NEWER = "look for a newer gaudi-shadow; 'gaudi-shadow report' prints what a bug report needs"


class Place(NamedTuple):
    """Where a target module is, or why it cannot be patched there.

    Attributes:
        spec: its stock spec, or None when it was not found.
        state, reason, todo: as in `outcome.FixOutcome`; the reason is empty when nothing is in the way.
    """

    spec: ModuleSpec | None
    state: str = NOT_APPLIED
    reason: str = ""
    todo: str = ""


def survey(root: str | None, texts: Collection[str] = ()) -> dict[str, Any]:
    """Look at the present interpreter, which should be a new one.

    Args:
        root: where to look for vllm_gaudi first (a site-packages folder, a release tree or a zip file), or None.
        texts: the targets whose stock and patched text is wanted.

    Returns:
        A dict that `json` can write: `python`, `hook`, `release` (None when there is none), `fixes` (a list), `known`
        (the names of all fixes), `broken` (what is wrong with our manifests), `notes`, and `texts` (module ->
        {"stock", "patched"}, where it can be patched). docs/cli.md describes what `check` prints of it.
    """
    hook = hook_state()
    release, places = _places(root)
    fixes: list[dict[str, str]] = []
    composed: dict[str, dict[str, str]] = {}
    for name, place in places.items():
        stock, decision = _decision(name, place)
        if name in texts and stock is not None and decision.code is not None:
            composed[name] = {"stock": "\n".join(stock.lines), "patched": patched_text(stock, decision)}
        fixes += _entries(_in_a_new_process(decision, place, hook))
    broken = _broken_manifests()
    return {
        "python": {"version": sys.version.split()[0], "executable": sys.executable},
        "hook": hook._asdict(),
        "release": release and {"version": release.version, "source": release.source, "root": release.root},
        "fixes": fixes or all_refused(sorted(TARGETS), "; ".join(broken), REINSTALL),
        "known": record.fix_names(),
        "broken": broken,
        "notes": [*broken, *_about_settings(fixes, hook)],
        "texts": composed,
    }


def _places(root: str | None) -> tuple[Release | None, dict[str, Place]]:
    """The release, and where each target is; nothing of it is read but the version."""
    try:
        with locate.looking_in(root):
            package, found = locate.find_package(PACKAGE, root)
            places = {name: _place(name, found) for name in sorted(TARGETS)}
    except locate.NotFound as error:
        todo = f"install vllm-gaudi for {sys.executable}, or name with --root the folder that holds vllm_gaudi"
        return None, {name: Place(None, reason=str(error), todo=todo) for name in sorted(TARGETS)}
    loader = package.__spec__.loader if package.__spec__ is not None else None
    return release_at(found, getattr(loader, "get_data", _unreadable)), places


def _place(name: str, found: str) -> Place:
    try:
        spec = locate.find_target(name)
    except locate.NotFound as error:
        return Place(None, DRIFTED, f"{error} in {found}", f"reinstall vllm-gaudi; if that is all there is, {NEWER}")
    finder = installed_finder()
    if finder is not None and name in finder.too_late:
        return Place(spec, reason=record.TOO_LATE, todo="import vllm_gaudi later than the hook")
    other = locate.answered_before(finder, name) if finder is not None else None
    if other:
        return Place(spec, reason=f"the finder {other} answers before ours", todo="install that finder before our hook")
    return Place(spec)


def _unreadable(path: str) -> bytes:
    raise OSError(path)


def _decision(name: str, place: Place) -> tuple[StockModule | None, Decision]:
    """What the loader would make of a target."""
    spec = place.spec
    if spec is None:
        return None, refused(name, "", place.state, place.reason, place.todo)
    file = spec.origin or ""
    try:
        stock = StockModule.from_loader(spec.loader, name, file)
    except (SyntaxError, ValueError) as error:
        return None, refused(name, file, DRIFTED, f"its source does not compile: {error}", "reinstall vllm-gaudi")
    except Exception as error:
        reason = f"it cannot be read: {type(error).__name__}: {error}"
        return None, refused(name, file, NOT_APPLIED, reason, "reinstall vllm-gaudi")
    try:
        return stock, with_parts_loaded(decide(stock, disabled_fixes()))
    except Exception as error:
        return stock, record.internal_fault(spec, error)


def _in_a_new_process(decision: Decision, place: Place, hook: HookState) -> Decision:
    """The decision as it comes true where the hook may be off, may not be asked, or a variable may be wrong."""
    if not hook.active:
        return with_state(decision, NOT_APPLIED, "the hook is not active in a new interpreter", hook.todo)
    if place.reason:
        return with_state(decision, place.state, place.reason, place.todo)
    try:
        return record.configured(decision)
    except ValueError as error:
        reason, _, todo = str(error).removeprefix("gaudi-shadow: ").partition("; ")
        return with_state(decision, NOT_APPLIED, f"the module's import fails, and so does the engine: {reason}", todo)


def _entries(decision: Decision) -> list[dict[str, str]]:
    """Whoever reads them has asked `check` already."""
    return [{**entry, "todo": NEWER} if entry["todo"] == ASK else entry for entry in entries(decision)]


def _broken_manifests() -> list[str]:
    broken = []
    try:
        for release in sorted(catalog.overlay_names()):
            try:
                catalog.overlay(release)
            except BrokenManifest as error:
                broken.append(str(error))
    except BrokenManifest as error:
        broken.append(str(error))
    return broken


def _about_settings(fixes: list[dict[str, str]], hook: HookState) -> list[str]:
    known = record.fix_names()
    lines = settings_lines(known) if known else []
    failing = sorted({entry["module"] for entry in fixes if entry["state"] in FAILURES})
    if failing and hook.active and is_strict():
        lines.append(
            f"VLLM_GAUDI_SHADOW_STRICT is set: the import of {' and of '.join(failing)} fails, and so does the engine; "
            "unset it to run stock"
        )
    return lines
