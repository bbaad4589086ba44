"""Find the target modules as Python would, without executing any of vllm_gaudi, not even its __init__ files."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

from gaudi_shadow.finder import TARGETS, ShadowFinder
from gaudi_shadow.specs import find_untouched_spec


class NotFound(LookupError):
    """A package or module is not where it should be; the message says which."""


class _Placeholder(ModuleType):
    """A package that is located and not executed."""


_placeholders: dict[str, ModuleType] = {}


@contextlib.contextmanager
def looking_in(root: str | None) -> Iterator[None]:
    """Within it, `root` is first on sys.path and located packages are remembered; afterwards all is as before."""
    before = list(sys.path)
    if root:
        sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path[:] = before
        _placeholders.clear()
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Placeholder)]:
            del sys.modules[name]


def located(package: str) -> ModuleType:
    """A package as it is loaded, or a placeholder that has its `__path__` and `__spec__`; call it in `looking_in`.

    Raises:
        NotFound: it, or a package around it, is not there.
    """
    found = sys.modules.get(package) or _placeholders.get(package)
    if found is None:
        spec = _find(package)
        if spec is None or spec.submodule_search_locations is None:
            raise NotFound(f"there is no package {package}")
        found = _placeholders[package] = _Placeholder(package)
        found.__path__ = spec.submodule_search_locations
        found.__spec__ = spec
    return found


def _find(name: str) -> ModuleSpec | None:
    above = name.rpartition(".")[0]
    path = located(above).__path__ if above else None
    try:
        return find_untouched_spec(name, path)
    except KeyError:
        # Only a namespace package wants its parent in sys.modules, where another thread could take it for the real one.
        for package, placeholder in _placeholders.items():
            sys.modules.setdefault(package, placeholder)
        return find_untouched_spec(name, path)


def find_target(name: str) -> ModuleSpec:
    """The stock spec of a module; call it in `looking_in`.

    Raises:
        NotFound: it, or a package around it, is not there.
    """
    spec = _find(name)
    if spec is None or spec.loader is None:
        raise NotFound(f"there is no module {name}")
    return spec


def find_package(name: str, root: str | None) -> tuple[ModuleType, str]:
    """A top-level package as `located` gives it, and the folder or zip file that holds it; call it in `looking_in`.

    Raises:
        NotFound: it is not there, or not in `root` where that is given.
    """
    try:
        package = located(name)
    except NotFound:
        package = None
    if package is None or package.__spec__ is None or not _holds_a_target(package):
        raise NotFound(f"there is no {name} in {root}" if root else f"a new interpreter finds no {name}")
    found = os.path.dirname(os.path.abspath(next(iter(package.__path__))))
    if root and os.path.realpath(found) != os.path.realpath(root):
        raise NotFound(f"Python finds {name} in {found}, not in {root}")
    return package, found


def _holds_a_target(package: ModuleType) -> bool:
    """A folder without __init__.py may be one that an uninstall left behind, or a release all the same."""
    if package.__spec__ is not None and package.__spec__.origin is not None:
        return True
    for name in TARGETS:
        with contextlib.suppress(NotFound):
            return find_target(name) is not None
    return False


def answered_before(finder: ShadowFinder, name: str) -> str | None:
    """Who answers for a target without asking our finder, so that it is not patched; None when nobody does."""
    asked: list[str] = []
    path = located(name.rpartition(".")[0]).__path__
    vars(finder)["find_spec"] = lambda name, *_: asked.append(name)
    try:
        for other in sys.meta_path[: sys.meta_path.index(finder)]:
            if other.find_spec(name, path, None) is not None:
                kind = other if isinstance(other, type) else type(other)
                return None if asked else f"{kind.__module__}.{kind.__qualname__}"
    finally:
        del vars(finder)["find_spec"]
    return None
