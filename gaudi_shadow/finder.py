"""The finder on sys.meta_path, and how it gets there. Runs in every Python process: `sys` and `os` only.

The wheel's `.pth`, `sitecustomize.py` and the vLLM plugin call `install`. One lookup rejects all but the targets.
"""

import os
import sys

TARGETS = frozenset({"vllm_gaudi.models.utils", "vllm_gaudi.v1.worker.hpu_model_runner"})
OFF_WORDS = ("0", "false", "no", "off")
ON_WORDS = ("1", "true", "yes", "on")


def is_switched_off() -> bool:
    """Whether VLLM_GAUDI_SHADOW says off."""
    return os.environ.get("VLLM_GAUDI_SHADOW", "").strip().lower() in OFF_WORDS


def is_strict() -> bool:
    """Whether VLLM_GAUDI_SHADOW_STRICT asks that a target which cannot be patched fails its import."""
    return os.environ.get("VLLM_GAUDI_SHADOW_STRICT", "").strip().lower() in ON_WORDS


class ShadowFinder:
    """A MetaPathFinder that answers for the target modules only.

    Attributes:
        route: which way the hook came into this process (see `install`).
        too_late: the targets that were already imported when the hook was installed; they stay as they are.
    """

    def __init__(self, route: str, too_late: "tuple[str, ...]" = ()) -> None:
        self.route = route
        self.too_late = too_late

    def find_spec(self, name, path=None, target=None):
        """The stock spec of a target with our loader around its own, or None for every other name."""
        if name not in TARGETS or is_switched_off():  # vLLM hands its variables to Ray workers after their start
            return None
        try:
            from gaudi_shadow.specs import find_patched_spec

            return find_patched_spec(name, path, target)
        except Exception as error:  # the package was removed or half upgraded below a running process
            theirs = getattr(error, "raised_by_another_finder", None)
            if theirs is None:
                return stay_out(name, error)
        raise theirs


def is_ours(finder: object) -> bool:
    """Whether a finder is ours, also when this module was imported anew or another copy of it installed the finder."""
    return type(finder).__module__ == ShadowFinder.__module__


def installed_finder() -> "ShadowFinder | None":
    """Our finder on sys.meta_path, or None."""
    for finder in sys.meta_path:
        if is_ours(finder):
            return finder  # type: ignore[return-value]
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


_said: "set[str]" = set()


def stay_out(name: str, error: Exception, effect: str = "stays stock") -> None:
    """Say once in a process what becomes of a target because a part of ours is damaged. It needs no other part."""
    why = " ".join(f"{type(error).__name__}: {error}".split())
    text = f"{name} {effect}: gaudi-shadow is damaged ({why}); reinstall gaudi-shadow"
    if is_strict():
        raise ImportError(text, name=name) from error
    if text not in _said and sys.stderr is not None:
        _said.add(text)
        try:
            sys.stderr.write(f"gaudi-shadow: {text}\n")
        except Exception:  # a closed stderr must not stop an import
            pass
