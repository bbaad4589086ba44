"""Whether the hook is active in this interpreter, by which route, and if not, why and what to do."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import gaudi_shadow
from gaudi_shadow.finder import is_switched_off
from gaudi_shadow.inject_folder import PACKAGE, inject_folder
from gaudi_shadow.startup import installed_finder


@dataclass(frozen=True)
class HookState:
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
    if finder is not None:
        return HookState(True, finder.route, PACKAGE, gaudi_shadow.__version__)
    reason, todo = _why_not()
    return HookState(False, "", PACKAGE, gaudi_shadow.__version__, reason, todo)


def _why_not() -> tuple[str, str]:
    if is_switched_off():
        value = os.environ["VLLM_GAUDI_SHADOW"]
        return f"VLLM_GAUDI_SHADOW={value} switches it off", "unset VLLM_GAUDI_SHADOW"
    folder = inject_folder()
    other = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    on_path = os.path.realpath(folder) in {os.path.realpath(entry) for entry in sys.path if entry}
    if other and on_path and os.path.realpath(os.path.dirname(other)) != os.path.realpath(folder):
        return f"{other} comes before our sitecustomize.py and does not run it", f"put {folder} first in PYTHONPATH"
    return (
        "neither a gaudi_shadow.pth in its site-packages nor our sitecustomize.py on PYTHONPATH installs it",
        f"'pip install gaudi-shadow' for {sys.executable}, or put {folder} first in PYTHONPATH, "
        "as 'gaudi-shadow run -- COMMAND' does",
    )
