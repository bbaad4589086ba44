"""What our manifests say about vllm-gaudi's releases: which are patched, which are not, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gaudi_shadow import catalog
from gaudi_shadow.manifest import Fix, Overlay, Seen
from gaudi_shadow.outcome import APPLIED, NOT_NEEDED
from gaudi_shadow.release import by_closeness

REFUSED = "refused"
STATES = {
    "verified": "the tests run this release's own functions, stock and replaced",
    "accepted": "the release's own tree was read: each function has a text that we know, and the graft was made",
    "not needed": "the release's own tree was read: its functions do not have the faults",
    "partly refused": "one module is patched, the other stays stock",
    "refused": "the modules stay stock",
    "unconfirmed": "the release's own tree could not be read",
}


@dataclass(frozen=True)
class KnownFix:
    """What becomes of one fix in one release: "applied", "not needed" or "refused", by which overlay, and why."""

    state: str
    overlay: str
    note: str = ""


@dataclass(frozen=True)
class KnownRelease:
    """One release: a tag of vllm-gaudi or "main of 2026-08-21", one of `STATES`, and its fixes by name."""

    release: str
    state: str
    fixes: dict[str, KnownFix]
    note: str = ""


Texts = Mapping[tuple[str, str], Mapping[str, Seen]]


def known_releases() -> list[KnownRelease]:
    """Every release that a manifest names, the newest first.

    Raises:
        BrokenManifest: a manifest cannot be read or used.
    """
    overlays = {name: catalog.overlay(name) for name in catalog.overlay_names()}
    texts: dict[tuple[str, str], dict[str, Seen]] = {}
    for overlay in overlays.values():
        for fix in overlay.fixes.values():
            for seen in fix.seen:
                texts.setdefault((fix.module, fix.function), {}).update(dict.fromkeys(seen.releases, seen))
    names = {release for releases in texts.values() for release in releases} | set(overlays)
    return [_known(name, overlays, texts) for name in _newest_first(names)]


def _newest_first(names: Iterable[str]) -> list[str]:
    branches = sorted(name for name in names if not name.startswith("v"))
    return branches + by_closeness("unknown", set(names) - set(branches))


def _known(name: str, overlays: Mapping[str, Overlay], texts: Texts) -> KnownRelease:
    if not any(name in releases for releases in texts.values()):
        own = overlays[name]
        return KnownRelease(name, "unconfirmed", {fix: KnownFix(APPLIED, name) for fix in own.fixes}, own.note)
    fixes: dict[str, KnownFix] = {}
    for module in dict.fromkeys(fix.module for fix in catalog.known_fixes().values()):
        fixes |= _of_module(module, name, overlays, texts)
    verified = any(name in overlay.verified for overlay in overlays.values())
    return KnownRelease(name, _summary({fix.state for fix in fixes.values()}, verified), fixes)


def _of_module(module: str, name: str, overlays: Mapping[str, Overlay], texts: Texts) -> dict[str, KnownFix]:
    """As `decide` does: the first overlay that fits the module whole, or else the one that is tried first."""
    tried = [
        _under(overlays[overlay], module, name, texts) for overlay in by_closeness(name.removeprefix("v"), overlays)
    ]
    return next((fixes for fixes in tried if REFUSED not in {fix.state for fix in fixes.values()}), tried[0])


def _under(overlay: Overlay, module: str, name: str, texts: Texts) -> dict[str, KnownFix]:
    return {
        fix.name: _state(overlay.fixes[fix.name], overlay.release, texts.get((fix.module, fix.function), {}).get(name))
        if fix.name in overlay.fixes
        else KnownFix(NOT_NEEDED, overlay.release)
        for fix in catalog.known_fixes().values()
        if fix.module == module
    }


def _state(fix: Fix, overlay: str, seen: Seen | None) -> KnownFix:
    if seen is None:
        return KnownFix(REFUSED, overlay, f"{fix.function} of this release was not read")
    if seen.fingerprint in fix.fixed_fingerprints:
        return KnownFix(NOT_NEEDED, overlay, seen.note)
    if seen.fingerprint in fix.fingerprints:
        return KnownFix(APPLIED, overlay, seen.note)
    return KnownFix(REFUSED, overlay, seen.note)


def _summary(states: set[str], verified: bool) -> str:
    if REFUSED in states:
        return "partly refused" if APPLIED in states else REFUSED
    if states == {NOT_NEEDED}:
        return NOT_NEEDED
    return "verified" if verified else "accepted"
