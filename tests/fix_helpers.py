"""The two functions that the fixes change, stock and patched, taken from a tree without importing it.

`decide` is asked as the loader asks it, on a stand-in or on the tree in GAUDI_FIXES_ROOT. Of its answer one code object
is executed, with globals of ours: torch, the bridge below, and vLLM's helpers or stand-ins for them. So the real
functions run where there is torch but no vLLM.
"""

from __future__ import annotations

import builtins
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import RUNNER, UTILS, Workshop
from fix_helpers_parts import Parts, best_parts, own_parts

from gaudi_shadow import catalog, record
from gaudi_shadow.decide import decide
from gaudi_shadow.demo.standin import GROUPING_NAMES
from gaudi_shadow.fixes import mm_encoder_budget, mm_encoder_covered
from gaudi_shadow.graft import find_code
from gaudi_shadow.outcome import APPLIED, Decision
from gaudi_shadow.stock import StockModule

BUDGET = "mm-encoder-budget"
COVERED = "mm-encoder-covered"
MERGE = "mm-merge-idxcopy"
TREES = ("stand-in v0.26.0", "stand-in v0.30.0", "real")
FUNCTIONS = {RUNNER: "HPUModelRunner._execute_mm_encoder", UTILS: "_merge_multimodal_embeddings"}


@contextmanager
def overlays_of(package: Path) -> Iterator[None]:
    """`decide` reads the overlays of another copy of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "PACKAGE", str(package))
        catalog._manifest_texts.cache_clear()
        catalog.overlay.cache_clear()
        yield
    catalog._manifest_texts.cache_clear()
    catalog.overlay.cache_clear()


@dataclass
class Target:
    """One target module of one tree."""

    root: Path
    module: str
    package: Path = Path(catalog.PACKAGE)

    @property
    def qualname(self) -> str:
        return FUNCTIONS[self.module]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.module.split(".")).with_suffix(".py")

    @cached_property
    def stock(self) -> StockModule:
        source = self.path.read_text("utf-8")
        code = compile(source, str(self.path), "exec", dont_inherit=True)
        return StockModule(self.module, str(self.path), code, source, lambda path: Path(path).read_bytes())

    @cached_property
    def stock_code(self) -> CodeType:
        assert self.stock.code is not None
        return find_code(self.stock.code, self.qualname)

    def decision(self, *disabled: str) -> Decision:
        with overlays_of(self.package):
            return decide(self.stock, frozenset(disabled))


def target(request: pytest.FixtureRequest, tree: str, module: str) -> Target:
    """A target module of one of TREES; "real" skips where there is none."""
    if tree == "real":
        return Target(request.getfixturevalue("release_root"), module)
    workshop: Workshop = request.getfixturevalue("workshop")
    return Target(workshop.trees[tree.split()[1]], module, workshop.hook / "gaudi_shadow")


def _parts(tree: str) -> Parts:
    return best_parts() if tree == "real" else own_parts()


def switch_on(decision: Decision, budget: str | None) -> None:
    """Configure the fixes as the loader does when the runner is imported; the variable is gone again afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(mm_encoder_budget.VARIABLE, raising=False)
        if budget is not None:
            patch.setenv(mm_encoder_budget.VARIABLE, budget)
        mm_encoder_budget.configure(False)
        mm_encoder_covered.configure(False)
        record.configured(decision)


@dataclass
class Bridge:
    """Stands for habana_frameworks.torch.core: counts the graph breaks, and puts them in the order of events."""

    events: list[str] = field(default_factory=list)

    def mark_step(self) -> None:
        self.events.append("mark_step")

    def as_modules(self) -> dict[str, ModuleType]:
        names = ("habana_frameworks", "habana_frameworks.torch", "habana_frameworks.torch.core")
        modules = {name: ModuleType(name) for name in names}
        for outer, inner in itertools.pairwise(names):
            setattr(modules[outer], inner.rpartition(".")[2], modules[inner])
        vars(modules[names[-1]]).update(mark_step=self.mark_step)
        return modules


class Encoder:
    """`_execute_mm_encoder` of one tree.

    Attributes:
        again: the patched step as it was last configured.
        grouped: (pairs, options) of each call of vLLM's grouping function.
    """

    again: Callable[[Any, list[str]], None]

    def __init__(self, target: Target, parts: Parts) -> None:
        self.target = target
        self.parts = parts
        self.bridge = Bridge()
        self.grouped: list[tuple[list[Any], dict[str, Any]]] = []

    @property
    def has_covered(self) -> bool:
        return COVERED in {outcome.fix for outcome in self.target.decision().applied}

    def _group(self, pairs: list[Any], **options: Any) -> Iterator[Any]:
        self.grouped.append((pairs, options))
        return self.parts.group(pairs, **options)

    def _function(self, code: CodeType) -> Callable[..., None]:
        import torch

        imported = [name for name in GROUPING_NAMES.values() if f"import {name}" in (self.target.stock.source or "")]
        names = dict.fromkeys(imported, self._group)
        known = {"sanity_check_mm_encoder_outputs": self.parts.check_outputs, "torch": torch}
        bridge = {"htorch": SimpleNamespace(core=self.bridge)}
        types = {"MultiModalKwargsItem": dict, "PlaceholderRange": object}
        return FunctionType(code, {"__builtins__": builtins, **names, **known, **bridge, **types})

    def stock(self, runner: Any, req_ids: list[str]) -> None:
        self._function(self.target.stock_code)(runner, None, req_ids)

    def patched(self, runner: Any, req_ids: list[str], budget: object = None, disabled: tuple[str, ...] = ()) -> None:
        """One step, after the runner's import with this budget in the variable and these fixes switched off."""
        decision = self.target.decision(*disabled)
        switch_on(decision, None if budget is None else str(budget))
        code = self.target.stock_code if decision.code is None else find_code(decision.code, self.target.qualname)
        self.again = lambda runner, req_ids: self._function(code)(runner, None, req_ids)
        self.again(runner, req_ids)

    def both(self, make_runner: Callable[[], Any], req_ids: list[str], budget: object = None) -> tuple[Any, Any]:
        """The stock and the patched runner after one step each, from the same start."""
        stock, patched = make_runner(), make_runner()
        self.stock(stock, req_ids)
        self.patched(patched, req_ids, budget)
        return stock, patched


def encoder(request: pytest.FixtureRequest, tree: str) -> Encoder:
    """The encoder step of one of TREES, with its fix in place."""
    found = Encoder(target(request, tree, RUNNER), _parts(tree))
    assert_applied(found.target.decision(), BUDGET)
    return found


class Merge:
    """`_merge_multimodal_embeddings` of one tree."""

    def __init__(self, target: Target, parts: Parts) -> None:
        self.bridge = Bridge()
        decision = target.decision()
        assert_applied(decision, MERGE)
        assert decision.code is not None
        self.stock = self._function(target.stock_code, parts)
        self.patched = self._function(find_code(decision.code, target.qualname), parts)

    def _function(self, code: CodeType, parts: Parts) -> Callable[..., Any]:
        import torch

        names = {"_flatten_embeddings": parts.flatten, "_embedding_count_expression": parts.count_expression}
        function = FunctionType(code, {"__builtins__": builtins, "torch": torch, **names})

        def call(*arguments: Any, **named: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                for name, module in self.bridge.as_modules().items():
                    patch.setitem(sys.modules, name, module)
                return function(*arguments, **named)

        return call


def merge(request: pytest.FixtureRequest, tree: str) -> Merge:
    """The merge of one of TREES, with its fix in place."""
    return Merge(target(request, tree, UTILS), _parts(tree))


def assert_applied(decision: Decision, fix: str) -> None:
    states = {outcome.fix: (outcome.state, outcome.reason) for outcome in decision.fixes}
    assert states[fix][0] == APPLIED, f"{decision.file}: {states}"


def real_root() -> Path | None:
    """GAUDI_FIXES_ROOT, for what is decided before a test runs."""
    return Path(os.environ["GAUDI_FIXES_ROOT"]) if os.environ.get("GAUDI_FIXES_ROOT") else None
