"""`gaudi-shadow verify`: for a maintainer, which overlays fit a release's tree, and what to do where they do not."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from gaudi_shadow.commands import UsageError
from gaudi_shadow.locate import NotFound
from gaudi_shadow.maintaining.verify_steps import UNKNOWN
from gaudi_shadow.maintaining.verifying import verify
from gaudi_shadow.messages import printable, write_error
from gaudi_shadow.outcome import APPLIED

HELP = "for maintainers: hold the overlays against a release's tree: exit 0 all fit, 1 not found, 2 drifted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--root, --against, --release and --json."""
    root_help = "the release: a folder or zip file that holds vllm_gaudi"
    parser.add_argument("--root", metavar="TREE", required=True, help=root_help)
    parser.add_argument("--against", metavar="TREE", help="a release that is patched: show what changed since")
    parser.add_argument("--release", metavar="NAME", help="the tag of --root, where its own version does not say it")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def execute(args: argparse.Namespace) -> int:
    """Print what was found.

    Returns:
        0 when every fix fits or is not needed, 1 when vllm_gaudi is not there, 2 when a function drifted.
    """
    for option, tree in (("--root", args.root), ("--against", args.against)):
        if tree is not None and not os.path.exists(tree):
            raise UsageError(f"{option} {tree}: there is no such folder")
    try:
        found = verify(args.root, args.against, args.release)
    except NotFound as error:
        write_error(f"gaudi-shadow verify: {error}")
        return 1
    print(json.dumps(found, indent=2) if args.json else _text(found))
    code: int = found["exit_code"]
    return code


def _text(found: dict[str, Any]) -> str:
    return "\n\n".join("\n".join(map(printable, block)) for block in _blocks(found))


def _blocks(found: dict[str, Any]) -> Iterator[Iterable[str]]:
    version = f"of {UNKNOWN} version" if found["release"] == UNKNOWN else found["release"]
    yield [f"vllm-gaudi {version} in {found['root']}"]
    yield _modules(found)
    yield (
        f"overlay {entry['overlay']}, {entry['fix']}: {'fits' if entry['state'] == APPLIED else entry['state']}"
        + (f": {entry['reason']}" if entry["reason"] else "")
        for entry in found["overlays"]
    )
    yield from (each["difference"].split("\n") for each in found["drifted"] if each["difference"])
    for manifest, content in found["add"].items():
        yield [f"to add to {manifest}:", *json.dumps(content, indent=2).split("\n")]
    yield ["next:", *(f"- {step}" for step in found["next"])]


def _modules(found: dict[str, Any]) -> Iterator[str]:
    for module in found["modules"]:
        fixes = ", ".join(f"{name} {outcome['state']}" for name, outcome in module["fixes"].items())
        how = f"patched by overlay {module['overlay']}" if module["patched"] else "stays stock"
        yield f"{module['module']} {how}: {fixes}"
