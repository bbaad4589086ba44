"""What a mutated module is without us, what it is with us, and whether the difference is right.

It judges by executing the module both ways and by `ast` and `tokenize`; of gaudi_shadow it uses the finder, to have the
module imported, and `status()`, to know what it claims.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import os
import signal
import sys
import tokenize
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drift_compare import Difference, differences
from drift_target import Mutant, Target, definitions, first_line

PATIENCE = 30  # seconds of CPU time: a machine may be busy, or a process stopped
MERGE_ALIAS = ("vllm.model_executor.models.utils", "_merge_multimodal_embeddings")


class TooLong(BaseException):
    """A mutant's own statements did not end."""


@dataclass
class Run:
    """One import: the module or what it raised, what vLLM's alias then held, and the lines on stderr."""

    module: Any = None
    error: BaseException | None = None
    alias: Any = None
    said: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """What came of a mutant.

    Attributes:
        faults: what is wrong, each beginning with "misapplied", "half patched", "crashed", "not refused", "missed" or
            "noise".
        applied: whether gaudi_shadow says that a fix is in the module.
        importable: whether the mutant is a module that stock Python can import.
    """

    faults: list[str]
    applied: bool
    importable: bool


class Oracle:
    """Judges the mutants of one target.

    Args:
        target: the unchanged target.
        tree: a folder on sys.path whose `vllm_gaudi` holds the mutant's file and nothing else.
        finder: gaudi_shadow's finder, on sys.meta_path.
    """

    def __init__(self, target: Target, tree: Path, finder: Any) -> None:
        self.target = target
        self.tree = tree
        self.file = tree.joinpath(*target.module.split(".")).with_suffix(".py")
        self.finder = finder
        self.overlays = str(Path(sys.modules["gaudi_shadow"].__file__ or "").resolve().parent / "overlays")
        self.tokens = _tokens(target.own_lines())
        self.tree_text = ast.dump(target.function)
        self._write(target.text.encode())
        unchanged = self._import(hooked=False)
        if unchanged.error is not None:
            raise unchanged.error

    def judge(self, mutant: Mutant) -> Verdict:
        """Import a mutant without us, with us, and with us under strict; compare."""
        self._write(mutant.data)
        stock, ours = self._import(hooked=False), self._import(hooked=True)
        claimed = importlib.import_module("gaudi_shadow").status()["modules"][self.target.module]
        applied = claimed["state"] == "patched"
        faults = self._faults(mutant, stock, ours, applied)
        states = {fix["state"] for fix in claimed["fixes"].values()}
        if claimed["state"] == "stock" and "applied" in states:
            faults.append("misapplied: the module is stock and a fix says applied")
        strict = self._import(hooked=True, strict=True)
        refused = isinstance(strict.error, ImportError) and strict.error.name == self.target.module
        if stock.error is None and refused is applied:
            faults.append(f"not refused: strict gives {strict.error!r}, and it is {claimed['state']}")
        return Verdict(faults, applied, stock.error is None)

    def knows_it(self) -> bool:
        """Whether the unchanged module gets its fixes; if not, no neutral mutant of it does."""
        return self.judge(Mutant("unchanged", self.target.text.encode())).applied

    def _faults(self, mutant: Mutant, stock: Run, ours: Run, applied: bool) -> list[str]:
        if len(ours.said) > 1 or any(not line.startswith("gaudi-shadow: ") for line in ours.said):
            return [f"noise: {ours.said}"]
        if repr(stock.error) != repr(ours.error):
            return [f"crashed: stock gives {stock.error!r}, with us {ours.error!r}"]
        if stock.error is not None:
            return ["misapplied: it claims a module that failed"] if applied else []
        found = [*differences(stock.module, ours.module), *differences(stock.alias, ours.alias, "alias")]
        if not applied:
            missed = [f"missed: a neutral mutant was not applied {ours.said}"] if mutant.neutral else []
            return missed + [f"half patched: {path}" for path, _, _ in found]
        return self._misapplied(mutant, stock, found)

    def _misapplied(self, mutant: Mutant, stock: Run, found: list[Difference]) -> list[str]:
        faults = []
        reached = _reach(stock.module, self.target.qualname)
        if not isinstance(reached, types.FunctionType) or not self._is_known(reached.__code__, mutant.data):
            return [f"misapplied: stock reaches {reached!r}, which is not the known function"]
        for path, old, new in found:
            if not (_is_code(old) and _is_code(new)):
                faults.append(f"misapplied: {path} changed from {old!r} to {new!r}")
            elif not self._is_known(old, mutant.data) or not new.co_filename.startswith(self.overlays):
                faults.append(f"misapplied: {path} is {old!r} in stock and {new!r} with us")
        if not any(path == self.target.qualname for path, _, _ in found):
            faults.append("misapplied: it says applied and the function is stock")
        return faults

    def _is_known(self, code: types.CodeType, data: bytes) -> bool:
        """Whether a code object was compiled from a function of the mutant that has the unchanged one's text."""
        if code.co_filename != str(self.file) or code.co_name != self.target.name:
            return False
        first, lines = code.co_firstlineno, importlib.util.decode_source(data).split("\n")
        found = [f for f in definitions(ast.parse(data), self.target.qualname) if first_line(f) == first]
        return any(
            ast.dump(f) == self.tree_text and _tokens(lines[first - 1 : f.end_lineno]) == self.tokens for f in found
        )

    def _write(self, data: bytes) -> None:
        folder = self.tree
        for name in self.target.module.split(".")[:-1]:
            folder = folder / name
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        self.file.write_bytes(data)

    def _import(self, *, hooked: bool, strict: bool = False) -> Run:
        run, name = Run(), self.target.module
        sys.modules.pop(name, None)
        alias_module = importlib.import_module(MERGE_ALIAS[0])
        vars(alias_module).pop(MERGE_ALIAS[1], None)
        self.finder_on(hooked)
        os.environ["VLLM_GAUDI_SHADOW_STRICT"] = str(int(strict))
        with _said() as said, _time_limit():
            try:
                run.module = importlib.import_module(name)
            except TooLong:
                raise
            except BaseException as error:
                run.error = error
        run.alias, run.said = vars(alias_module).get(MERGE_ALIAS[1]), said.getvalue().splitlines()
        sys.modules.pop(name, None)
        return run

    def finder_on(self, on: bool) -> None:
        """Put the finder on sys.meta_path, or take it away."""
        sys.meta_path[:] = [self.finder] * on + [finder for finder in sys.meta_path if finder is not self.finder]


@contextlib.contextmanager
def _said() -> Iterator[io.StringIO]:
    with contextlib.redirect_stderr(io.StringIO()) as text:
        yield text


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*args: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _tokens(lines: list[str]) -> list[tuple[int, str]]:
    """The tokens that mean something; an indentation's width depends on where the function stands."""
    text = ["if True:", *lines] if lines[0][:1].isspace() else lines
    unwanted = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found = tokenize.generate_tokens(io.StringIO("\n".join(text) + "\n").readline)
    kept = [(token.type, token.string.replace("\r", "")) for token in found if token.type not in unwanted]
    return kept[4:] if text is not lines else kept


def _is_code(value: Any) -> bool:
    return isinstance(value, types.CodeType)


def _reach(module: Any, qualname: str) -> Any:
    found = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found
