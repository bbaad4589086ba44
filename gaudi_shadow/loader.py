"""The loader around a target's stock loader: it executes the patched copy and is otherwise the stock one."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from gaudi_shadow import record
from gaudi_shadow.decide import REINSTALL, decide
from gaudi_shadow.finder import is_strict
from gaudi_shadow.messages import logger, warn_once
from gaudi_shadow.outcome import NOT_APPLIED, Decision, applied_line, failure_line, with_state
from gaudi_shadow.stock import StockModule
from gaudi_shadow.switches import disabled_fixes, unknown_names_line
from gaudi_shadow.vllm_environ import register_names


class ShadowLoader:
    """A stock loader whose module is executed as the full patched copy.

    Every attribute that is not defined here is the stock loader's own (get_source, get_filename, is_package,
    get_resource_reader, path, ...). `get_code` gives the code that an import would execute, so that `python -m` runs
    the same. Once execution begins, the module and its spec carry the stock loader again.
    """

    def __init__(self, stock: Any, spec: ModuleSpec) -> None:
        self.stock = stock
        self.spec = spec

    def __getattr__(self, name: str) -> Any:
        if name in ("stock", "spec"):  # not set yet: copy and pickle ask before __init__ has run
            raise AttributeError(name)
        return getattr(self.stock, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.stock, self.spec))

    def _decide(self) -> Decision:
        name = self.spec.name
        return decide(StockModule.from_loader(self.stock, name, self.spec.origin or ""), disabled_fixes())

    def get_code(self, name: str) -> CodeType | None:
        """The patched module's code object, or the stock one where nothing is grafted.

        Raises:
            ImportError: the name is not this loader's; or whatever the stock loader raises.
        """
        patched = self._decide().code if name == self.spec.name else None
        code: CodeType | None = patched or self.stock.get_code(name)
        return code

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the stock loader."""
        create = getattr(self.stock, "create_module", None)
        return create(spec) if create is not None else None

    def load_module(self, fullname: str) -> ModuleType:
        """The legacy protocol, for callers that still use it: the patched module, not the stock one."""
        module = importlib.util.module_from_spec(self.spec)
        sys.modules[fullname] = module
        try:
            self.exec_module(module)
        except BaseException:
            sys.modules.pop(fullname, None)
            raise
        return sys.modules[fullname]

    def exec_module(self, module: ModuleType) -> None:
        """Execute the patched copy, or the stock module where that cannot be made.

        Raises:
            ImportError: VLLM_GAUDI_SHADOW_STRICT is set and the module cannot be patched.
            ValueError: a fix's own variable has a value that it cannot use.
        """
        self._restore_stock_loader(module)
        unknown = unknown_names_line(record.fix_names())
        if unknown:
            warn_once(unknown)
        try:
            decision = with_parts_loaded(self._decide())
        except Exception as error:  # a fault of ours must never be the reason why a stock module does not load
            decision = record.internal_fault(self.spec, error)
        decision = record.configured(decision)
        if decision.code is None:
            self._run_stock(module, decision)
        else:
            self._run_patched(module, decision, decision.code)
        register_names()

    def _restore_stock_loader(self, module: ModuleType) -> None:
        self.spec.loader = self.stock
        module.__loader__ = self.stock
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self.stock

    def _run_stock(self, module: ModuleType, decision: Decision) -> None:
        _report_failures(decision)
        self.stock.exec_module(module)

    def _run_patched(self, module: ModuleType, decision: Decision, code: CodeType) -> None:
        record.note(decision, "executing")
        try:
            self._execute(module, code)
        except BaseException as error:
            record.note(decision, "failed", f"its own import failed: {type(error).__name__}: {error}")
            raise
        replaced = [name for name, function in decision.functions if not _is_in_place(module, name, function)]
        if replaced:
            reason = f"the module or its loader put something else in the place of {', '.join(replaced)}"
            _report_failures(with_state(decision, NOT_APPLIED, reason, "run 'gaudi-shadow check'"))
            return
        record.note(decision, "patched")
        logger().info("gaudi-shadow: %s", applied_line(decision))

    def _execute(self, module: ModuleType, code: CodeType) -> None:
        if getattr(type(self.stock), "exec_module", None) is SourceFileLoader.exec_module:
            exec(code, module.__dict__)
            return
        # A loader with an exec_module of its own (ddtrace's, typeguard's) keeps it, and is handed our code.
        self.stock.get_code = lambda name: code
        try:
            self.stock.exec_module(module)
        finally:
            del self.stock.get_code


def with_parts_loaded(decision: Decision) -> Decision:
    """Import what the grafted functions call before anything is executed, not on the first image."""
    names = [name for _, function in decision.functions for name in function.co_names]
    try:
        for name in names:
            if name.startswith("gaudi_shadow."):
                importlib.import_module(name)
        for outcome in decision.fixes:
            record.fix_module(outcome.fix)
    except (ImportError, SyntaxError) as error:
        return with_state(decision, NOT_APPLIED, f"a part of gaudi-shadow is damaged: {error}", REINSTALL)
    return decision


def _report_failures(decision: Decision) -> None:
    record.note(decision, "stock")
    if not decision.failures:
        return
    line = failure_line(decision)
    if is_strict():
        raise ImportError(f"gaudi-shadow: VLLM_GAUDI_SHADOW_STRICT is set, and {line}", name=decision.module)
    warn_once(line)


def _is_in_place(module: ModuleType, qualname: str, function: CodeType) -> bool:
    found: Any = module
    for name in qualname.split("."):
        found = vars(found).get(name)
        if found is None:
            return False
    while not hasattr(found, "__code__"):
        inner = getattr(found, "__wrapped__", None) or getattr(found, "__func__", None) or getattr(found, "fget", None)
        if inner is None:
            return False
        found = inner
    return found.__code__ is function or found.__code__ == function
