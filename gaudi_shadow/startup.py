"""Put the finder on sys.meta_path. Runs in every Python process, so it imports `sys` and the finder only.

The routes that call it: the wheel's `.pth` and `.start`, `sitecustomize.py`, and the vLLM plugin.
"""

import sys

from gaudi_shadow.finder import TARGETS, ShadowFinder, is_switched_off


def installed_finder() -> "ShadowFinder | None":
    """Our finder on sys.meta_path, or None."""
    for finder in sys.meta_path:
        if isinstance(finder, ShadowFinder):
            return finder
    return None


def install(route: str = "start") -> "ShadowFinder | None":
    """Put one finder at the front of sys.meta_path; a second call changes nothing.

    Args:
        route: who calls: "pth", "start" (PEP 829), "sitecustomize", "plugin" or a caller's own word.

    Returns:
        The finder that is installed, or None when VLLM_GAUDI_SHADOW switches us off.
    """
    if is_switched_off():
        return None
    finder = installed_finder()
    if finder is None:
        finder = ShadowFinder(route, tuple(name for name in TARGETS if name in sys.modules))
        sys.meta_path.insert(0, finder)
        if finder.too_late:
            from gaudi_shadow.record import note_too_late

            note_too_late(finder.too_late)
    return finder
