"""The full patched copy of a module as text, and its difference from stock. Executes nothing."""

from __future__ import annotations

import ast
import difflib

from gaudi_shadow import catalog
from gaudi_shadow.outcome import Decision
from gaudi_shadow.stock import StockModule


def patched_text(stock: StockModule, decision: Decision) -> str:
    """The stock text with the replaced functions' lines substituted by the overlay's, indented as stock has them.

    Args:
        stock: the module.
        decision: what `decide` made of it; its `functions` are those that are substituted.

    Returns:
        The text, without a byte order mark and with \\n line ends. It compiles to the functions that the graft
        executes; only lines and columns differ.
    """
    overlay = catalog.overlay(decision.overlay)
    functions = [stock.function(qualname) for qualname, _ in decision.functions]
    lines = list(stock.lines)
    for function in sorted(functions, key=lambda each: each.code.co_firstlineno, reverse=True):
        ours = catalog.overlay_block(overlay, stock.name, function.qualname)
        first = function.code.co_firstlineno - 1
        lines[first : first + len(function.block)] = _indented(ours, _indent(function.block))
    return "\n".join(lines)


def _indent(block: list[str]) -> str:
    return block[0][: len(block[0]) - len(block[0].lstrip())]


def _indented(block: list[str], indent: str) -> list[str]:
    own, inside = _indent(block), _rows_inside_strings(block)
    return [
        line if row in inside or not line.strip() else indent + line.removeprefix(own) for row, line in enumerate(block)
    ]


def _rows_inside_strings(block: list[str]) -> set[int]:
    """The rows, counted from 0, whose indentation may belong to a string that began above them."""
    header = ["if True:"] if _indent(block) else []
    tree = ast.parse("\n".join([*header, *block]) + "\n")
    return {
        row - 1 - len(header)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for row in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }


def difference(module: str, stock: str, patched: str) -> str:
    """A unified diff of two texts of a module, which `patch -p1` in the tree's root understands; empty when equal."""
    file = module.replace(".", "/") + ".py"
    return "".join(difflib.unified_diff(_ended(stock), _ended(patched), f"a/{file}", f"b/{file}"))


def _ended(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [line + "\n" for line in lines] + ([f"{last}\n\\ No newline at end of file\n"] if last else [])
