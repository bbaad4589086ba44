"""Let a module be executed without what it imports: what is not there is a module of placeholders.

A placeholder can be a base class, a decorator, an annotation, a default value; it does nothing. So the real modules of
a release can be executed, as far as their own statements go, in a Python that has neither torch nor vLLM.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Anything(type):
    """The class of placeholders: a class that can be called, subscripted, joined with | and asked for attributes."""

    def __getattr__(cls, name: str) -> Any:
        return _made_for(cls, name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("_is_placeholder") is None:
            return super().__call__(*args, **kwargs)
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else cls

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *args: object) -> None:
        return None


def placeholder(name: str) -> Any:
    """A new placeholder."""
    return _Anything(name, (), {"_is_placeholder": True, "__init__": lambda self, *args, **kwargs: None})


def _made_for(holder: Any, name: str) -> Any:
    """The placeholder that an attribute is from its first use on; Python's own names are none."""
    if name.startswith("__"):
        raise AttributeError(name)
    made = placeholder(name)
    setattr(holder, name, made)
    return made


class _PlaceholderModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return _made_for(self, name)


class PermissiveFinder:
    """A finder on sys.meta_path, and the loader of what it finds.

    Args:
        real: top-level names that it leaves alone, besides those of the standard library.
    """

    def __init__(self, real: frozenset[str]) -> None:
        self.real = real | sys.stdlib_module_names

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for every name but the real ones."""
        if name.partition(".")[0] in self.real:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module of placeholders."""
        return _PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


def install(real: frozenset[str], where_missing: frozenset[str]) -> None:
    """Answer for every import that is not real: also for torch where it is installed, whose import takes seconds.

    Args:
        real: top-level names that are imported as always.
        where_missing: top-level names whose missing submodules are placeholders.
    """
    sys.meta_path.insert(0, PermissiveFinder(real | where_missing))
    sys.meta_path.append(PermissiveFinder(real))
