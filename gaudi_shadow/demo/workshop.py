"""A copy of this package whose manifests also accept the functions of a given tree.

The overlays that we ship accept the real functions only, and no line of those is in our repo. The demo and the tests
therefore run a copy of the package that differs in one thing: its manifests accept a stand-in's fingerprints too.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gaudi_shadow.catalog import PACKAGE
from gaudi_shadow.fingerprint import fingerprint, function_block, plain_lines
from gaudi_shadow.graft import find_code
from gaudi_shadow.manifest import parse_overlay


def copy_package(folder: Path) -> Path:
    """Copy gaudi_shadow, overlays included, and its sitecustomize into `folder`, as a checkout lies.

    Returns:
        `folder`: on PYTHONPATH it activates the copy.
    """
    package = Path(PACKAGE)
    shutil.copytree(package, folder / "gaudi_shadow", ignore=shutil.ignore_patterns("__pycache__"))
    inside, beside = package / "inject" / "sitecustomize.py", package.parent / "sitecustomize.py"
    shutil.copy(inside if inside.exists() else beside, folder / "sitecustomize.py")
    return folder


def adopt(overlays: Path, release: str, tree: Path) -> None:
    """Add the fingerprints of a tree's target functions to one overlay's manifest.

    Args:
        overlays: the overlays folder of a copy of this package; the manifest is rewritten.
        release: the overlay that is to fit the tree, such as "v0.26.0".
        tree: a folder that holds vllm_gaudi.
    """
    texts = {path.parent.name: path.read_text("utf-8") for path in overlays.glob("*/manifest.json")}
    manifest = json.loads(texts[release])
    for name, fix in parse_overlay(release, texts).fixes.items():
        known = [*fix.fingerprints, _fingerprint_in(tree, fix.module, fix.function)]
        manifest["fixes"].setdefault(name, {})["fingerprints"] = known
    (overlays / release / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


def _fingerprint_in(tree: Path, module: str, function: str) -> str:
    path = tree.joinpath(*module.split(".")).with_suffix(".py")
    source = path.read_text("utf-8")
    code = find_code(compile(source, str(path), "exec", dont_inherit=True), function)
    return fingerprint(function_block(plain_lines(source), code.co_firstlineno))
