"""The loader around a target's stock loader: it executes the patched copy and is otherwise the stock one."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from gaudi_shadow import record
from gaudi_shadow.decide import ASK, REINSTALL, decide
from gaudi_shadow.execution import CannotHandOver, is_in_place, load_imports, put_back, runner
from gaudi_shadow.finder import is_strict, stay_out
from gaudi_shadow.graft import find_code
from gaudi_shadow.messages import logger, one_line, warn_once
from gaudi_shadow.outcome import NOT_APPLIED, Decision, applied_line, failure_line, with_state
from gaudi_shadow.record import WrongValue
from gaudi_shadow.stock import StockModule
from gaudi_shadow.switches import disabled_fixes, settings_lines
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

    def get_code(self, name: str) -> CodeType | None:
        """The patched module's code object, or the stock one where nothing is grafted.

        Raises:
            ImportError: the name is not this loader's, or VLLM_GAUDI_SHADOW_STRICT is set and the module cannot be
                patched; or whatever the stock loader raises.
            ValueError: a fix's own variable has a value that it cannot use.
        """
        # Where the module is patched already, looking at its code must not configure the running fixes anew.
        noted = record.entry(name)
        settle = self._decided if noted is not None and noted[1] == "patched" else self._settled
        decision = self._guarded(settle) if name == self.spec.name else None
        code: CodeType | None = decision.code if decision is not None else None
        return code or self.stock.get_code(name)

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
        prepared = self._guarded(self._prepared, module)
        if prepared is None:
            self.stock.exec_module(module)
        else:
            self._run_patched(module, *prepared)
        self._guarded(register_names, effect="is loaded, but vLLM does not know our variables")

    def _guarded(self, step: Callable[..., Any], *args: Any, effect: str = "stays stock") -> Any:
        """What a step of ours returns, or None with one line where it fails: no fault of ours stops a stock module."""
        try:
            return step(*args)
        except WrongValue:
            raise
        except Exception as error:
            if is_strict() and isinstance(error, ImportError) and error.name == self.spec.name:
                raise  # our own refusal
            return stay_out(self.spec.name, error, effect)

    def _prepared(self, module: ModuleType) -> tuple[Decision, Callable[[], None]] | None:
        """What is to be done, and what executes the patched module; None where it stays stock."""
        decision = self._settled()
        if decision.code is None:
            return None
        try:
            return decision, runner(self.stock, module, self.spec.name, decision.code)
        except CannotHandOver as error:
            reason = f"its loader cannot be given the patched code: {error}"
            _report_failures(with_state(decision, NOT_APPLIED, reason, ASK))
            return None

    def _settled(self) -> Decision:
        """What is to be done, noted, and said where it is a refusal."""
        for line in settings_lines(record.fix_names()):
            warn_once(line)
        decision = record.configured(self._decided())
        if decision.code is None:
            _report_failures(decision)
        else:
            record.note(decision, "executing")
        return decision

    def _decided(self) -> Decision:
        try:
            stock = StockModule.from_loader(self.stock, self.spec.name, self.spec.origin or "")
        except Exception as error:
            reason = f"its own loader cannot read it: {type(error).__name__}: {error}"
            return record.refused(self.spec, reason, "reinstall vllm-gaudi")
        try:
            return with_parts_loaded(decide(stock, disabled_fixes()))
        except Exception as error:
            return record.internal_fault(self.spec, error)

    def _restore_stock_loader(self, module: ModuleType) -> None:
        self.spec.loader = self.stock
        module.__loader__ = self.stock
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self.stock

    def _run_patched(self, module: ModuleType, decision: Decision, run: Callable[[], None]) -> None:
        registered = sys.modules.get(self.spec.name) is module
        try:
            run()
        except BaseException as error:
            self._guarded(record.note, decision, "failed", f"its own import failed: {type(error).__name__}: {error}")
            self._guarded(self._undo, decision, effect="failed, and a function of ours may be left of it")
            raise
        found = sys.modules.get(self.spec.name) if registered else module
        self._guarded(self._look_after, decision, found, effect="was patched and could not be looked after")

    def _look_after(self, decision: Decision, module: ModuleType | None) -> None:
        """A module may end by putting something else in a function's place; then none of ours may stay in it."""
        replaced = [name for name, function in decision.functions if not is_in_place(module, name, function)]
        if replaced:
            self._undo(decision)
            reason = f"the module or its loader put something else in the place of {', '.join(replaced)}"
            _report_failures(with_state(decision, NOT_APPLIED, reason, ASK))
            return
        record.note(decision, "patched")
        with contextlib.suppress(Exception):  # a handler of the user's may fail
            logger().info("gaudi-shadow: %s", applied_line(decision))

    def _undo(self, decision: Decision) -> None:
        stock = self.stock.get_code(self.spec.name)
        put_back((function, find_code(stock, name)) for name, function in decision.functions)


def with_parts_loaded(decision: Decision) -> Decision:
    """Import what the grafted functions call before anything is executed, not on the first image."""
    try:
        for _, function in decision.functions:
            load_imports(function, "gaudi_shadow.")
        for outcome in decision.fixes:
            record.fix_module(outcome.fix)
    except (ImportError, SyntaxError) as error:
        return with_state(decision, NOT_APPLIED, f"a part of gaudi-shadow is damaged: {error}", REINSTALL)
    return decision


def _report_failures(decision: Decision) -> None:
    record.note(decision, "stock")
    if not decision.failures:
        return
    line = one_line(failure_line(decision))
    if is_strict():
        raise ImportError(f"gaudi-shadow: VLLM_GAUDI_SHADOW_STRICT is set, and {line}", name=decision.module)
    warn_once(line)
