"""Which vllm-gaudi release a package folder holds, read as text; nothing of vllm-gaudi is executed."""

import json
import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

DISTRIBUTION = "vllm-gaudi"
FIRST_TAG = "0.10.0"
_VERSION_LINE = re.compile(r"^(?:__version__|version)\b[^#\n]*?=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


class Release(NamedTuple):
    """A release as found.

    Attributes:
        version: as it is written there ("0.26.1.dev3+g1234abc"), or "unknown".
        source: where it was read: "metadata", "_version.py" or "nowhere".
        root: the folder (or zip file) that holds the vllm_gaudi package.
    """

    version: str
    source: str
    root: str


def release_at(root: str, read: Callable[[str], bytes]) -> Release:
    """The release of the vllm_gaudi package below `root`.

    Metadata comes first: that beside the package, so that of two copies the one that is imported is named; then
    metadata elsewhere on sys.path that belongs to no other copy (an editable install's). Then `_version.py`, which
    setuptools-scm may write.

    Args:
        root: the folder or zip file that holds the package.
        read: the stock loader's `get_data`; it reads from zip files too.
    """
    try:
        version = _version_beside(root) or _version_elsewhere(root)
    except Exception:  # another distribution's metadata or somebody's finder is broken, and the version is but a hint
        version = None
    if version:
        return Release(version, "metadata", root)
    try:
        text = read(os.path.join(root, "vllm_gaudi", "_version.py")).decode("utf-8", "replace")
    except OSError:
        text = ""
    found = _VERSION_LINE.search(text)
    return Release(found[1], "_version.py", root) if found else Release("unknown", "nowhere", root)


def _version_beside(root: str) -> str | None:
    from importlib.metadata import distributions

    return next(filter(None, map(_version_of, distributions(name=DISTRIBUTION, path=[root]))), None)


def _version_elsewhere(root: str) -> str | None:
    from importlib.metadata import distributions

    for distribution in distributions(name=DISTRIBUTION):
        if os.path.exists(str(distribution.locate_file("vllm_gaudi"))) or not _may_point_to(distribution, root):
            continue
        if version := _version_of(distribution):
            return version
    return None


def _version_of(distribution: "Distribution") -> str | None:
    """The version, or None where METADATA is missing, empty or has none: Python 3.15 makes errors of these."""
    try:
        metadata = distribution.metadata
    except FileNotFoundError:
        return None
    if "Version" not in metadata:
        return None
    return metadata["Version"]


def _may_point_to(distribution: "Distribution", root: str) -> bool:
    """False when an editable install's direct_url.json names another folder."""
    try:
        url = json.loads(distribution.read_text("direct_url.json") or "{}")["url"]
    except (ValueError, KeyError, TypeError):
        return True
    folder = os.path.realpath(unquote(urlsplit(url).path))
    return os.path.realpath(root) in (folder, os.path.join(folder, "src"))


def _is_version(name: str) -> bool:
    """False for a folder that somebody left beside the overlays, such as a copy."""
    from packaging.version import InvalidVersion, Version

    try:
        return bool(Version(name.removeprefix("v")))
    except InvalidVersion:
        return False


def by_closeness(version: str, releases: Iterable[str]) -> list[str]:
    """Overlay folders ("v0.26.0") in the order in which to try them for a version.

    The same release first, then older ones from the nearest on, then newer ones; all from the newest on when the
    version says nothing ("unknown", one before the first tag such as "0.0.0", or no `packaging` to read it with).
    """
    names = list(releases)
    try:
        from packaging.version import InvalidVersion, Version
    except Exception:  # missing or damaged
        return sorted(names, reverse=True)
    names = [name for name in names if _is_version(name)]
    newest_first = sorted(names, key=lambda name: Version(name.removeprefix("v")), reverse=True)
    try:
        wanted = Version(version)
    except InvalidVersion:
        return newest_first
    if wanted < Version(FIRST_TAG):
        return newest_first
    older = [name for name in newest_first if Version(name.removeprefix("v")) <= wanted]
    return older + [name for name in reversed(newest_first) if name not in older]
