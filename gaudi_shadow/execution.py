"""Execute a patched module through its stock loader, see whether it kept what was grafted, and undo it if not."""

from __future__ import annotations

import functools
import gc
import importlib
import threading
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

_handing_over = threading.Lock()


class CannotHandOver(TypeError):
    """A stock loader has an exec_module of its own and does not let itself be given our code; nothing was executed."""


def load_imports(function: CodeType, prefix: str) -> None:
    """Do now what the import statements of a function do when it is called, for the modules whose name begins so.

    Raises:
        ImportError: a module, or a name in it, is not there; or whatever the module raises.
    """
    import dis

    module: ModuleType | None = None
    for step in dis.get_instructions(function):
        if step.opname == "IMPORT_NAME":
            module = importlib.import_module(step.argval) if step.argval.startswith(prefix) else None
        elif step.opname == "IMPORT_FROM" and module is not None and not hasattr(module, step.argval):
            raise ImportError(f"{module.__name__} has no {step.argval}", name=module.__name__)


def runner(loader: Any, module: ModuleType, name: str, code: CodeType) -> Callable[[], None]:
    """What executes `code`, once, as the stock loader would execute the module's own.

    A loader with an exec_module of its own (ddtrace's, typeguard's) keeps it, and is handed our code.

    Raises:
        CannotHandOver: see there.
    """
    own = "exec_module" in getattr(loader, "__dict__", ())
    if not own and getattr(type(loader), "exec_module", None) is SourceFileLoader.exec_module:
        return functools.partial(exec, code, module.__dict__)
    giver = _hand_over(loader, name, code)

    def run() -> None:
        try:
            loader.exec_module(module)
        finally:
            _take_back(loader, name, giver)

    return run


class _CodeGiver(dict[str, CodeType]):
    """A loader's get_code while some of its modules are executed: ours for those, the loader's own for the others."""

    def __init__(self, loader: Any) -> None:
        super().__init__()
        self.before = getattr(loader, "__dict__", {}).get("get_code")
        self.stock_get_code: Any = getattr(loader, "get_code", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ours = self.get(str(args[0] if args else kwargs.get("fullname")))
        return ours or self.stock_get_code(*args, **kwargs)


def _hand_over(loader: Any, name: str, code: CodeType) -> _CodeGiver:
    """One loader may execute several modules at once: nested imports, threads."""
    with _handing_over:
        giver = getattr(loader, "__dict__", {}).get("get_code")
        if not isinstance(giver, _CodeGiver):
            giver = _CodeGiver(loader)
            try:
                loader.get_code = giver
            except (AttributeError, TypeError) as error:
                raise CannotHandOver(str(error)) from error
        giver[name] = code
        return giver


def _take_back(loader: Any, name: str, giver: _CodeGiver) -> None:
    with _handing_over:
        giver.pop(name, None)
        if not giver and giver.before is None:
            del loader.get_code
        elif not giver:
            loader.get_code = giver.before


def is_in_place(module: Any, qualname: str, function: CodeType) -> bool:
    """Whether the module's function of that name is the grafted one.

    A function that something was put around is not, unless decorators of its own definition did that.
    """
    found = module
    for name in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    if getattr(found, "__code__", None) == function:
        return True
    layers = 20 if _is_decorated(function) else 0
    for _ in range(layers):
        inner = (getattr(found, name, None) for name in ("__wrapped__", "__func__", "fget"))
        found = next((each for each in inner if each is not None), None)
        if getattr(found, "__code__", None) == function:
            return True
    return False


def _is_decorated(function: CodeType) -> bool:
    import linecache

    return linecache.getline(function.co_filename, function.co_firstlineno).lstrip().startswith("@")


def put_back(pairs: Iterable[tuple[CodeType, CodeType]]) -> None:
    """Give every function that was made from a grafted code object the stock one: the module keeps none of ours.

    Args:
        pairs: (grafted, stock), which agree in what a caller sees and in their free variables.
    """
    for grafted, stock in pairs:
        for holder in gc.get_referrers(grafted):
            if isinstance(holder, FunctionType) and holder.__code__ is grafted:
                holder.__code__ = stock
