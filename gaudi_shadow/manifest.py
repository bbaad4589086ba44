"""Read the manifests of our own overlays: which fixes there are, and which text of a function each one knows."""

import json
from pathlib import PurePosixPath
from typing import Any, NamedTuple

PACKAGE_FILES = "overlays"


class BrokenManifest(ValueError):
    """A manifest of ours cannot be used; the message names the file and what is wrong."""


class Seen(NamedTuple):
    """A text of a fix's function, and the releases whose own trees were read and hold it.

    Attributes:
        fingerprint: of the text, or "missing" where the release defines no such function.
        releases: tags of vllm-gaudi ("v0.26.0"), or "main of 2026-08-21".
        note: why the text is not replaced, when it is not. May be empty.
    """

    fingerprint: str
    releases: tuple[str, ...]
    note: str


class Fix(NamedTuple):
    """One fix as a manifest describes it; the fields are the manifest's own (see docs/adding-a-fix.md)."""

    name: str
    summary: str
    affects: str
    module: str
    function: str
    fingerprints: tuple[str, ...]
    switch: str
    upstream: str
    remove_when: str
    fixed_fingerprints: tuple[str, ...] = ()
    fixed_markers: tuple[str, ...] = ()
    fault_markers: tuple[str, ...] = ()
    seen: tuple[Seen, ...] = ()


class Overlay(NamedTuple):
    """One release's overlay.

    Attributes:
        release: the folder's name, "v0.26.0".
        lineage: this release and then its bases; a file is taken from the first that has it.
        verified: the releases whose own trees the tests have run with this overlay.
        note: on what the overlay rests while its own release is not among them.
        fixes: by name, those of the bases included.
        stated: the names of those that its own manifest says something about.
    """

    release: str
    lineage: tuple[str, ...]
    verified: tuple[str, ...]
    note: str
    fixes: dict[str, Fix]
    stated: frozenset[str]

    @property
    def confirmed(self) -> bool:
        """Whether the overlay's own release is verified."""
        return self.release in self.verified

    def fixes_of(self, module: str) -> list[Fix]:
        """The fixes that change a module, in the manifest's order."""
        return [fix for fix in self.fixes.values() if fix.module == module]

    def files_for(self, module: str) -> list[str]:
        """Where the sparse module may lie, relative to the package, the nearest first."""
        inner = PurePosixPath(*module.split(".")).with_suffix(".py")
        return [str(PurePosixPath(PACKAGE_FILES, release, inner)) for release in self.lineage]


def manifest_file(release: str) -> str:
    """A manifest's path relative to the package."""
    return f"{PACKAGE_FILES}/{release}/manifest.json"


def parse_overlay(release: str, texts: dict[str, str]) -> Overlay:
    """One overlay from the manifests' texts.

    Args:
        release: a key of `texts`.
        texts: release -> the manifest's text, of all releases.

    Raises:
        BrokenManifest: not JSON, a missing, unknown or wrongly typed field, or a base that is not there.
    """
    lineage: list[str] = []
    documents: list[dict[str, Any]] = []
    following: str | None = release
    while following is not None:
        if following in lineage or following not in texts:
            raise BrokenManifest(f"{manifest_file(release)}: its base {following!r} is missing or its own base")
        document = _document(following, texts[following])
        lineage.append(following)
        documents.append(document)
        following = document.get("base")
    merged: dict[str, dict[str, Any]] = {}
    for document in reversed(documents):
        for name, entry in document["fixes"].items():
            merged[name] = {**merged.get(name, {}), **entry}
    newest = documents[0]
    fixes = {name: _fix(release, name, entry) for name, entry in merged.items()}
    stated = frozenset(newest["fixes"])
    return Overlay(release, tuple(lineage), tuple(newest["verified"]), newest.get("note", ""), fixes, stated)


_TOP_FIELDS: dict[str, type | tuple[type, ...]] = {
    "release": str,
    "base": (str, type(None)),
    "verified": list,
    "note": str,
    "fixes": dict,
}


def _document(release: str, text: str) -> dict[str, Any]:
    where = manifest_file(release)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenManifest(f"{where}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BrokenManifest(f"{where}: not a JSON object")
    for name in ("release", "verified", "fixes"):
        if name not in document:
            raise BrokenManifest(f"{where}: field {name!r} is missing")
    for name, value in document.items():
        if name not in _TOP_FIELDS:
            raise BrokenManifest(f"{where}: unknown field {name!r}")
        if not isinstance(value, _TOP_FIELDS[name]):
            raise BrokenManifest(f"{where}: field {name!r} has the wrong type")
    if not _are_strings(document["verified"]):
        raise BrokenManifest(f"{where}: field 'verified' must be a list of strings")
    if document["release"] != release:
        raise BrokenManifest(f"{where}: says it is {document['release']!r}")
    for name, entry in document["fixes"].items():
        if not isinstance(entry, dict):
            raise BrokenManifest(f"{where}: fix {name!r} is not a JSON object")
    return document


_LISTS = ("fingerprints", "fixed_fingerprints", "fixed_markers", "fault_markers")


def _fix(release: str, name: str, entry: dict[str, Any]) -> Fix:
    where = f"{manifest_file(release)}: fix {name!r}"
    known = set(Fix._fields) - {"name"}
    for field, value in entry.items():
        if field not in known:
            raise BrokenManifest(f"{where}: unknown field {field!r}")
        if field in _LISTS:
            if not _are_strings(value):
                raise BrokenManifest(f"{where}: field {field!r} must be a list of strings")
        elif field != "seen" and not isinstance(value, str):
            raise BrokenManifest(f"{where}: field {field!r} must be a string")
    values: dict[str, Any] = {field: tuple(value) if field in _LISTS else value for field, value in entry.items()}
    values["seen"] = _seen(where, entry.get("seen", {}))
    try:
        return Fix(name=name, **values)
    except TypeError as error:
        raise BrokenManifest(f"{where}: {str(error).replace('Fix.__new__()', 'it')}") from error


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _seen(where: str, texts: Any) -> tuple[Seen, ...]:
    if not isinstance(texts, dict):
        raise BrokenManifest(f"{where}: field 'seen' is not a JSON object")
    for fingerprint, found in texts.items():
        well_formed = isinstance(found, dict) and set(found) <= {"releases", "note"}
        if not (well_formed and _are_strings(found.get("releases")) and isinstance(found.get("note", ""), str)):
            raise BrokenManifest(
                f"{where}: 'seen' of {fingerprint!r} must hold 'releases', a list, and may hold 'note'"
            )
    return tuple(Seen(text, tuple(found["releases"]), found.get("note", "")) for text, found in texts.items())
