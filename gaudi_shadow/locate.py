"""Find the target modules as Python would, without executing any of vllm_gaudi, not even its __init__ files."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

from gaudi_shadow.finder import ShadowFinder
from gaudi_shadow.specs import find_stock_spec


class NotFound(LookupError):
    """A package or module is not where it should be; the message says which."""


class _Placeholder(ModuleType):
    """A package that is located and not executed: a namespace package asks sys.modules for its parent's path."""


@contextlib.contextmanager
def looking_in(root: str | None) -> Iterator[None]:
    """Within it, `root` is first on sys.path and located packages stay in sys.modules; afterwards all is as before."""
    before = list(sys.path)
    if root:
        sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path[:] = before
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Placeholder)]:
            del sys.modules[name]


def located(package: str) -> ModuleType:
    """A package as it is loaded, or a placeholder that has its `__path__` and `__spec__`; call it in `looking_in`.

    Raises:
        NotFound: it, or a package around it, is not there.
    """
    if package not in sys.modules:
        above = package.rpartition(".")[0]
        spec = find_stock_spec(package, located(above).__path__ if above else None)
        if spec is None or spec.submodule_search_locations is None:
            raise NotFound(f"there is no package {package}")
        placeholder = _Placeholder(package)
        placeholder.__path__ = spec.submodule_search_locations
        placeholder.__spec__ = spec
        sys.modules[package] = placeholder
    return sys.modules[package]


def find_target(name: str) -> ModuleSpec:
    """The stock spec of a module; call it in `looking_in`.

    Raises:
        NotFound: it, or a package around it, is not there.
    """
    spec = find_stock_spec(name, located(name.rpartition(".")[0]).__path__)
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
    # A folder without __init__.py, such as one that an uninstall left behind, is a namespace package without origin.
    if package is None or package.__spec__ is None or package.__spec__.origin is None:
        raise NotFound(f"there is no {name} in {root}" if root else f"a new interpreter finds no {name}")
    found = os.path.dirname(os.path.abspath(next(iter(package.__path__))))
    if root and os.path.realpath(found) != os.path.realpath(root):
        raise NotFound(f"Python finds {name} in {found}, not in {root}")
    return package, found


def answered_before(finder: ShadowFinder, name: str) -> str | None:
    """Who answers for a target without asking our finder, so that it is not patched; None when nobody does."""
    asked: list[object] = []
    find_spec: Callable[..., ModuleSpec | None] = finder.find_spec

    def spy(*args: object) -> ModuleSpec | None:
        asked.append(args)
        return find_spec(*args)

    path = located(name.rpartition(".")[0]).__path__
    vars(finder)["find_spec"] = spy
    try:
        for other in sys.meta_path[: sys.meta_path.index(finder)]:
            if other.find_spec(name, path, None) is not None:
                kind = other if isinstance(other, type) else type(other)
                return None if asked else f"{kind.__module__}.{kind.__qualname__}"
    finally:
        del vars(finder)["find_spec"]
    return None
