"""The folder that activates the hook when it is on PYTHONPATH. `run` needs it at each start, so it imports little."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))


class NoInjectFolder(FileNotFoundError):
    """Our sitecustomize.py is missing; the message is one line that says what to do."""


def inject_folder() -> str:
    """The folder that activates the hook when it is on PYTHONPATH: inject/ of an install, the root of a checkout.

    Raises:
        NoInjectFolder: neither is there.
    """
    inside = os.path.join(PACKAGE, "inject")
    for folder in (inside, os.path.dirname(PACKAGE)):
        if _is_ours(os.path.join(folder, "sitecustomize.py")):
            return folder
    raise NoInjectFolder(f"{os.path.join(inside, 'sitecustomize.py')} is missing; reinstall gaudi-shadow")


def _is_ours(sitecustomize: str) -> bool:
    """Around an installed package is a site-packages, whose sitecustomize.py would be somebody else's."""
    try:
        with open(sitecustomize, encoding="utf-8", errors="replace") as file:
            return "gaudi-shadow" in file.readline()
    except OSError:
        return False
