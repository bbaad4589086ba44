"""Where two executions of one module differ: names, functions down to their code objects, classes, containers."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

Difference = tuple[str, Any, Any]

_CONSTANTS = (str, bytes, int, float, complex, bool, type(None))
_WRAPPERS = (staticmethod, classmethod, property, functools.partial, types.MethodType)
_INNER = ("__func__", "fget", "fset", "fdel", "func", "args", "keywords", "__self__")
_OF_FUNCTION = ("__defaults__", "__kwdefaults__", "__closure__", "__dict__", "__qualname__")
_OF_CLASS_ONLY = ("__dict__", "__weakref__")


def same_code(left: types.CodeType, right: types.CodeType) -> bool:
    """Whether two code objects are the same in all that Python can see, file names and lines included."""
    if left != right or left.co_filename != right.co_filename or list(left.co_lines()) != list(right.co_lines()):
        return False
    pairs = zip(left.co_consts, right.co_consts, strict=True)
    return all(same_code(a, b) for a, b in pairs if isinstance(a, types.CodeType) and isinstance(b, types.CodeType))


def differences(
    stock: Any, ours: Any, path: str = "", seen: set[tuple[int, int]] | None = None
) -> Iterator[Difference]:
    """Every (path, stock's, ours); for two functions with different code the two code objects.

    Args:
        stock, ours: two modules, or parts of them at the same place.
        path: where they are ("Class.method"); empty for the module.
        seen: the pairs that need not be compared again.
    """
    seen = set() if seen is None else seen
    if stock is ours or (id(stock), id(ours)) in seen:
        return
    seen.add((id(stock), id(ours)))
    if type(stock) is not type(ours) and type(stock).__qualname__ != type(ours).__qualname__:
        yield path, stock, ours
    elif isinstance(stock, _CONSTANTS):
        if stock != ours and repr(stock) != repr(ours):
            yield path, stock, ours
    elif isinstance(stock, types.CodeType):
        if not same_code(stock, ours):
            yield path, stock, ours
    else:
        for name, left, right in _pairs(stock, ours):
            yield from differences(left, right, f"{path}{name}".lstrip("."), seen)


_MISSING = type("missing", (), {})()


def _pairs(stock: Any, ours: Any) -> Iterator[Difference]:
    """The parts of two things of one kind, each with what it adds to the path."""
    if isinstance(stock, types.FunctionType):
        yield "", stock.__code__, ours.__code__
        for name in _OF_FUNCTION:
            yield f".{name}", getattr(stock, name), getattr(ours, name)
    elif isinstance(stock, types.CellType):
        yield "", _cell(stock), _cell(ours)
    elif isinstance(stock, _WRAPPERS):
        for name in _INNER:
            yield f".{name}", getattr(stock, name, None), getattr(ours, name, None)
    elif isinstance(stock, list | tuple):
        yield ".length", len(stock), len(ours)
        for index, (left, right) in enumerate(zip(stock, ours, strict=False)):
            yield f"[{index}]", left, right
    elif isinstance(stock, dict):
        yield from _named(stock, ours)
    elif isinstance(stock, type):
        yield ".bases", [base.__qualname__ for base in stock.__bases__], [base.__qualname__ for base in ours.__bases__]
        yield from _named(*({k: v for k, v in vars(each).items() if k not in _OF_CLASS_ONLY} for each in (stock, ours)))
    elif hasattr(stock, "__dict__"):
        yield from _named(vars(stock), vars(ours))


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _named(stock: Any, ours: Any) -> Iterator[Difference]:
    yield ".names", sorted(map(str, stock)), sorted(map(str, ours))
    for name in stock:
        if name in ours:
            yield f".{name}", stock[name], ours[name]
