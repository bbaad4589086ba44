"""Ask the other finders for the stock spec of a target, and wrap its loader."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from gaudi_shadow.finder import is_ours
from gaudi_shadow.loader import ShadowLoader

_asked = threading.local()


class AnotherFinderFailed(Exception):
    """What another finder raised, in `raised_by_another_finder`; the import fails with that, as it would without us."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.raised_by_another_finder = error


def find_stock_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
    """The spec that Python would use without us: the first answer of the other finders.

    Every finder counts, not PathFinder alone: editable installs bring finders of their own. Those behind ours come
    first, since Python has asked those before ours already. One that is being asked by us for this name, and asks us
    in turn, is not asked again: it has no need of a guard of its own.
    """
    asking: list[tuple[str, object]] = _asked.__dict__.setdefault("asking", [])
    for finder in _others_in_turn():
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None or any(named == name and asked is finder for named, asked in asking):
            continue
        asking.append((name, finder))
        try:
            spec = find_spec(name, path, target)
        finally:
            asking.pop()
        if spec is not None:
            return spec  # type: ignore[no-any-return]
    return None


def _others_in_turn() -> list[object]:
    finders: list[object] = list(sys.meta_path)
    ours = next((place for place, finder in enumerate(finders) if is_ours(finder)), -1)
    return [finder for finder in finders[ours + 1 :] + finders[: max(ours, 0)] if not is_ours(finder)]


def find_untouched_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """As `find_stock_spec`, and a finder that itself searches sys.meta_path does not get a wrapped loader from us."""
    _asked.only_stock = True
    try:
        return find_stock_spec(name, path)
    finally:
        _asked.only_stock = False


def find_patched_spec(name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    """The stock spec of a target with its loader wrapped once.

    A finder that itself searches sys.meta_path (ddtrace's module watchdog) comes back to us for the same name; then
    the inner call has done the wrapping, and the spec that the other finder makes of it is passed on as it is.

    Raises:
        AnotherFinderFailed: see there.
    """
    if getattr(_asked, "only_stock", False):
        return None
    wrapped: dict[str, int] = _asked.__dict__.setdefault("wrapped", {})
    before = wrapped.get(name, 0)
    try:
        spec = find_stock_spec(name, path, target)
    except Exception as error:
        raise AnotherFinderFailed(error) from error
    if spec is None or wrapped.get(name, 0) != before:
        return spec
    if not hasattr(spec.loader, "exec_module"):
        return spec
    spec.loader = ShadowLoader(spec.loader, spec)  # type: ignore[assignment]
    wrapped[name] = before + 1
    return spec
