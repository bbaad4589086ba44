"""Whether the hook is active in this interpreter, by which route, and if not, why and what to do."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import gaudi_shadow
from gaudi_shadow.finder import installed_finder, is_switched_off
from gaudi_shadow.inject_folder import PACKAGE, inject_folder


class HookState(NamedTuple):
    """The hook in one interpreter.

    Attributes:
        active: whether our finder is on sys.meta_path.
        route: "pth", "start", "sitecustomize", "plugin" or a caller's own word; empty when it is not active.
        package: the folder of the gaudi_shadow that is, or would be, at work.
        version: that package's version.
        reason, todo: why it is not active, and what to do; empty when it is.
    """

    active: bool
    route: str
    package: str
    version: str
    reason: str = ""
    todo: str = ""


def hook_state() -> HookState:
    """Look at the present interpreter."""
    finder = installed_finder()
    if finder is not None and not is_switched_off():
        return HookState(True, finder.route, PACKAGE, gaudi_shadow.__version__)
    reason, todo = _why_not()
    return HookState(False, "", PACKAGE, gaudi_shadow.__version__, reason, todo)


def _why_not() -> tuple[str, str]:
    if is_switched_off():
        value = os.environ["VLLM_GAUDI_SHADOW"]
        return f"VLLM_GAUDI_SHADOW={value} switches it off", "unset VLLM_GAUDI_SHADOW"
    folder = inject_folder()
    ours = _place_on_path(folder)
    file = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    theirs = _place_on_path(os.path.dirname(file)) if file else None
    if ours is None or theirs is None:
        reason = "neither a gaudi_shadow.pth in its site-packages nor our sitecustomize.py on PYTHONPATH installs it"
        if _is_plugin():
            reason += "; only vLLM's own processes get it, as a plugin, and say so in their log"
        return (
            reason,
            f"install gaudi-shadow with pip for {sys.executable}, or put {folder} first in PYTHONPATH, "
            "as 'gaudi-shadow run -- COMMAND' does",
        )
    if theirs < ours:
        return f"{file} comes before our sitecustomize.py and does not run it", f"put {folder} first in PYTHONPATH"
    return f"the sitecustomize.py in {folder} ran, but its finder is not on sys.meta_path", "find out what removed it"


def _is_plugin() -> bool:
    """Whether vLLM would find our plugin: the distribution's metadata is on sys.path."""
    from importlib.metadata import entry_points

    return any(point.value.startswith("gaudi_shadow.") for point in entry_points(group="vllm.general_plugins"))


def _place_on_path(folder: str) -> int | None:
    same = [bool(entry) and os.path.realpath(entry) == os.path.realpath(folder) for entry in sys.path]
    return same.index(True) if True in same else None
