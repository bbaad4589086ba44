"""The module and the function that drift_fuzz.py mutates, read with `ast` alone and with nothing of gaudi_shadow."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass

# The two targets are facts about vllm-gaudi; a test holds them against the manifests.
FUNCTIONS = {
    "vllm_gaudi.models.utils": "_merge_multimodal_embeddings",
    "vllm_gaudi.v1.worker.hpu_model_runner": "HPUModelRunner._execute_mm_encoder",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def definitions(tree: ast.AST, qualname: str) -> list[Function]:
    """Every definition of a module-level function or of a method ("Class.method"), conditional ones included."""
    *classes, name = qualname.split(".")
    scopes: list[ast.AST] = [tree]
    for wanted in classes:
        scopes = [node for scope in scopes for node in _own(scope) if _is(node, ast.ClassDef, wanted)]
    return [node for scope in scopes for node in _own(scope) if isinstance(node, Function) and node.name == name]


def _is(node: ast.AST, kind: type[ast.ClassDef], name: str) -> bool:
    return isinstance(node, kind) and node.name == name


def _own(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a scope's own body, not those of functions and classes in it."""
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def first_line(function: Function) -> int:
    """The line that `co_firstlineno` names: the first decorator's, or that of the `def`."""
    return min([function.lineno, *(node.lineno for node in function.decorator_list)])


@dataclass(frozen=True)
class Target:
    """One target of one tree, unchanged.

    Attributes:
        module, qualname: which function.
        lines: the module's lines, without their ends.
        function: the function in its tree.
        scope: the first and last line of the class that holds it, or of the whole module.
    """

    module: str
    qualname: str
    lines: tuple[str, ...]
    function: Function
    scope: tuple[int, int]

    @classmethod
    def read(cls, module: str, text: str) -> Target:
        """The target in a module's text, which must hold it once."""
        tree, qualname = ast.parse(text), FUNCTIONS[module]
        [function] = definitions(tree, qualname)
        lines = tuple(text.split("\n"))
        owners = [node for node in tree.body if isinstance(node, ast.ClassDef) and function in node.body]
        scope = (owners[0].lineno, owners[0].end_lineno or 0) if owners else (1, len(lines))
        return cls(module, qualname, lines, function, scope)

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.name

    @property
    def owner(self) -> str | None:
        """The class that holds it."""
        return self.qualname.rpartition(".")[0] or None

    @property
    def first(self) -> int:
        """Its first line, counted from 1."""
        return first_line(self.function)

    @property
    def last(self) -> int:
        """Its last line."""
        return self.function.end_lineno or self.function.lineno

    @property
    def indent(self) -> str:
        """The indentation of its `def`."""
        return " " * self.function.col_offset

    @property
    def text(self) -> str:
        """The whole module."""
        return "\n".join(self.lines)

    def with_function(self, lines: list[str]) -> str:
        """The module with other lines in the function's place."""
        return "\n".join([*self.lines[: self.first - 1], *lines, *self.lines[self.last :]])

    def own_lines(self) -> list[str]:
        """The function's lines."""
        return list(self.lines[self.first - 1 : self.last])

    def outside_lines(self) -> list[int]:
        """The numbers, counted from 1, of the lines that are not the function's."""
        return [number for number in range(1, len(self.lines) + 1) if not self.first <= number <= self.last]

    def statements(self) -> list[ast.stmt]:
        """The statements of its body that begin their line, those inside others included."""
        nodes = [node for child in self.function.body for node in ast.walk(child) if isinstance(node, ast.stmt)]
        return [node for node in nodes if not self.lines[node.lineno - 1][: node.col_offset].strip()]


@dataclass(frozen=True)
class Mutant:
    """A mutated module.

    Attributes:
        kind: the mutation's name.
        data: the file's bytes.
        neutral: whether the function is by construction still the known one and reachable under its name, so that not
            applying the fix would be an error too.
    """

    kind: str
    data: bytes
    neutral: bool = False


Make = Callable[[Target, random.Random], str | bytes]


@dataclass(frozen=True)
class Mutation:
    """A kind of mutation: how it is made, how often it is drawn, and whether it leaves the function as it was."""

    kind: str
    make: Make
    weight: int = 1
    neutral: bool = False

    def apply(self, target: Target, dice: random.Random) -> Mutant:
        """One mutant."""
        made = self.make(target, dice)
        return Mutant(self.kind, made.encode("utf-8", "surrogatepass") if isinstance(made, str) else made, self.neutral)
