"""Find and read our own overlays. They come from this package's folder and from nowhere else."""

import contextlib
import os
import re
from functools import cache, lru_cache
from types import CodeType

from gaudi_shadow.fingerprint import function_block, plain_lines
from gaudi_shadow.graft import CannotGraft, find_code
from gaudi_shadow.manifest import PACKAGE_FILES, BrokenManifest, Fix, Overlay, manifest_file, parse_overlay

PACKAGE = os.path.dirname(os.path.abspath(__file__))


class BrokenOverlay(ValueError):
    """A file of ours is missing or cannot be used; the message names it."""


# Ours have a few kilobytes; a damaged file must not fill the memory of every process.
_LARGEST = 1_000_000
_RELEASE = re.compile(r"v\d+(\.\d+)*(rc\d+|\.post\d+)?\Z", re.ASCII)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"more than {_LARGEST:,} characters")
    return text


def _why(error: Exception) -> str:
    """What is wrong with a file, without its name: that is said already."""
    return getattr(error, "strerror", None) or str(error)


@lru_cache(maxsize=1)
def _manifest_texts() -> dict[str, str]:
    folder = os.path.join(PACKAGE, PACKAGE_FILES)
    try:
        releases = [name for name in os.listdir(folder) if _RELEASE.match(name)]
    except OSError as error:
        raise BrokenManifest(f"{PACKAGE_FILES}: {error.strerror or error}") from error
    texts = {}
    for release in releases:
        try:
            texts[release] = _read(os.path.join(PACKAGE, manifest_file(release)))
        except (OSError, ValueError) as error:
            texts[release] = ""
            _unreadable[release] = f"{manifest_file(release)}: {_why(error)}"
    return texts


_unreadable: dict[str, str] = {}


def overlay_names() -> list[str]:
    """The releases that have an overlay folder, in no order.

    Raises:
        BrokenManifest: the overlays folder itself cannot be listed, or is empty.
    """
    texts = _manifest_texts()
    if not texts:
        raise BrokenManifest(f"{PACKAGE_FILES}: no overlay is there")
    return list(texts)


@cache
def overlay(release: str) -> Overlay:
    """One release's overlay.

    Raises:
        BrokenManifest: its manifest, or that of a base, cannot be read or used.
    """
    texts = _manifest_texts()
    if release in _unreadable:
        raise BrokenManifest(_unreadable[release])
    return parse_overlay(release, texts)


def known_fixes() -> dict[str, Fix]:
    """Every fix of every overlay that can be read, by name; the last overlay's words win. Empty when none can."""
    fixes: dict[str, Fix] = {}
    try:
        for release in sorted(overlay_names()):
            with contextlib.suppress(BrokenManifest):
                fixes.update(overlay(release).fixes)
    except BrokenManifest:
        pass
    return fixes


def overlay_function(overlay: Overlay, module: str, qualname: str) -> CodeType:
    """The function that takes the stock one's place, compiled under its real file name.

    Raises:
        BrokenOverlay: the file is missing, does not compile, or does not define the function once.
    """
    return _overlay_function(overlay, module, qualname)[1]


def overlay_block(overlay: Overlay, module: str, qualname: str) -> list[str]:
    """That function's own lines in its file.

    Raises:
        BrokenOverlay: as `overlay_function`.
    """
    source, code = _overlay_function(overlay, module, qualname)
    return function_block(plain_lines(source), code.co_firstlineno)


def _overlay_function(overlay: Overlay, module: str, qualname: str) -> tuple[str, CodeType]:
    relatives = overlay.files_for(module)
    candidates = [os.path.join(PACKAGE, relative) for relative in relatives]
    path = next(filter(os.path.lexists, candidates), None)
    if path is None:
        raise BrokenOverlay(f"{PACKAGE} has no {' and no '.join(relatives)}")
    try:
        source = _read(path)
        return source, find_code(compile(source, path, "exec", dont_inherit=True), qualname)
    except (OSError, SyntaxError, ValueError, CannotGraft) as error:
        raise BrokenOverlay(f"{path}: {_why(error)}") from error
