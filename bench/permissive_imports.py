"""Let a module be executed without what it imports: every import that fails gives a module of placeholders.

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
        if name.startswith("__"):
            raise AttributeError(name)
        made = placeholder(name)
        setattr(cls, name, made)
        return made

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


class _PlaceholderModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = placeholder(name)
        setattr(self, name, made)
        return made


class PermissiveFinder:
    """The last finder on sys.meta_path, and the loader of what it finds.

    Args:
        outside: top-level names that it leaves alone, so that a misspelt import of those fails as it should.
    """

    def __init__(self, outside: frozenset[str] = frozenset({"gaudi_shadow", "packaging"})) -> None:
        self.outside = outside

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for every name that no finder before it knows."""
        top = name.partition(".")[0]
        if top in self.outside or top in sys.stdlib_module_names:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module of placeholders."""
        return _PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


def install() -> PermissiveFinder:
    """Put a finder of this kind at the end of sys.meta_path."""
    finder = PermissiveFinder()
    sys.meta_path.append(finder)
    return finder
