"""Put compiled functions into a module's code object. Knows code objects only: no files, no manifests."""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType

# What a caller or the interpreter's call protocol sees; CO_NESTED and the __future__ bits are not among them.
_CALLING_FLAGS = (
    inspect.CO_OPTIMIZED
    | inspect.CO_NEWLOCALS
    | inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


class CannotGraft(ValueError):
    """A function cannot be replaced; the message says why."""


def find_code(module_code: CodeType, qualname: str) -> CodeType:
    """The one code object of a module-level function or of a method, by qualified name ('Class.method').

    Raises:
        CannotGraft: there is none of that name, or more than one (a property's getter and setter share a name).
    """
    code = module_code
    for name in qualname.split("."):
        found = [const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name]
        if len(found) != 1:
            how_many = "no" if not found else f"{len(found)}"
            raise CannotGraft(f"the module defines {how_many} {qualname}, where one is expected")
        code = found[0]
    return code


def calling_disagreement(stock: CodeType, overlay: CodeType) -> str | None:
    """Why `overlay` must not take the place of `stock`, or None when a caller cannot tell them apart.

    A function object is made by the stock module's bytecode, which fills exactly the stock closure: with other
    co_freevars the interpreter crashes when the function is called.
    """
    arguments = [
        (
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags & _CALLING_FLAGS,
            code.co_varnames[: _argument_names(code)],
        )
        for code in (stock, overlay)
    ]
    if arguments[0] != arguments[1]:
        return "its arguments or its kind (generator, coroutine) differ from the overlay's"
    if stock.co_freevars != overlay.co_freevars:
        return f"its free variables are {stock.co_freevars}, the overlay's {overlay.co_freevars}"
    return None


def _argument_names(code: CodeType) -> int:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def unknown_globals(module_code: CodeType, overlay: CodeType) -> list[str]:
    """The global names that an overlay function reads and that the module's own statements never mention, sorted.

    What the module imports with `*` is unknown too: nothing is executed to find out.
    """
    return sorted(set(_globals_read(overlay)) - set(module_code.co_names) - set(vars(builtins)))


def _globals_read(code: CodeType) -> Iterator[str]:
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _globals_read(const)


def graft(module_code: CodeType, functions: Mapping[str, CodeType]) -> CodeType:
    """A copy of a module's code object in which the named functions are replaced; all of them or none.

    Args:
        module_code: the stock module; it is not changed.
        functions: qualified name -> compiled overlay function.

    Raises:
        CannotGraft: a name is missing or ambiguous, or a function would be called differently.
    """
    for qualname, overlay in functions.items():
        reason = calling_disagreement(find_code(module_code, qualname), overlay)
        if reason:
            raise CannotGraft(f"{qualname}: {reason}")
    for qualname, overlay in functions.items():
        module_code = _replaced(module_code, qualname.split("."), overlay)
    return module_code


def _replaced(code: CodeType, path: list[str], overlay: CodeType) -> CodeType:
    name, *rest = path
    consts = tuple(
        (_replaced(const, rest, overlay) if rest else overlay)
        if isinstance(const, CodeType) and const.co_name == name
        else const
        for const in code.co_consts
    )
    return code.replace(co_consts=consts)
