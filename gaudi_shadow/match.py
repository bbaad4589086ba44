"""Does the function that a module was compiled from have the text that we know, and does its bytecode belong to it?"""

from __future__ import annotations
import __future__

import ast
import functools
import operator
from collections.abc import Sequence
from types import CodeType
from typing import Any

from gaudi_shadow.graft import find_code

# They change how a function's text compiles, and a function compiled alone does not see its module's first lines.
_FUTURE_FLAGS = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def belongs_to(code: CodeType, module_code: CodeType, source: str, block: list[str], qualname: str) -> bool:
    """Whether the stock code object of a function, and its definition around it, are what its text compiles to.

    Args:
        code: the function in `module_code`.
        source: the module's text; it is parsed only when the function alone gives other code.
        block: the function's own lines in it.
    """
    first, flags = code.co_firstlineno, module_code.co_flags
    stock = definition(module_code, qualname, range(first, first + len(block)))

    def is_compiled_from(imports: Sequence[str]) -> bool:
        alone = compile_alone(block, qualname, first, flags, imports)
        same = is_same_code(find_code(alone, qualname), code)
        return same and definition(alone, qualname, range(first, first + len(block))) == stock

    try:
        # CPython compiles `name.method()` differently when the module imports `name` (is_import_originated).
        return is_compiled_from(()) or is_compiled_from(top_level_imports(source))
    except (SyntaxError, ValueError):
        return False


def definition(module_code: CodeType, qualname: str, lines: range) -> list[tuple[str, str]]:
    """What the scope around a function executes to define it: decorators, defaults, annotations, its name's binding.

    Returns:
        (operation, argument) pairs; of code objects only that they are some.
    """
    import dis

    scope, _, name = qualname.rpartition(".")
    around = find_code(module_code, scope) if scope else module_code
    spans = [(start, end) for start, end, line in around.co_lines() if line in lines]
    if not spans:
        return []
    # It is read, never executed.
    part = around.replace(co_code=around.co_code[spans[0][0] : spans[-1][1]], co_linetable=b"")
    steps = []
    for step in dis.get_instructions(part):
        if step.opname != "EXTENDED_ARG":  # it says how large the scope's tables are
            steps.append((step.opname, "code" if isinstance(step.argval, CodeType) else repr(step.argval)))
        # A private name is stored with its class's before it.
        if step.opname.startswith("STORE") and str(step.argval).endswith(name):
            break
    return steps


def compile_alone(
    block: list[str], qualname: str, first: int, future_flags: int, imports: Sequence[str] = ()
) -> CodeType:
    """Compile a function's own lines at their own line numbers, inside empty classes of the stock names.

    The classes give what a method gets from its class: private names, `__class__` and the qualified name.

    Args:
        block: the lines with their own indentation, decorators included.
        first: the line of block[0] in its module, counted from 1.
        future_flags: `co_flags` of the module, whose `__future__` bits are taken over.
        imports: names that the module imports at its top level; they are imported below the function.

    Returns:
        The code object of the module that was compiled.

    Raises:
        SyntaxError, ValueError: the text does not compile.
    """
    classes = qualname.split(".")[:-1]
    headers = [" " * depth + f"class {name}:" for depth, name in enumerate(classes)]
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    if indent and not classes:
        headers = ["if True:"]
    if len(indent) < len(classes):
        raise SyntaxError(f"{qualname} is not indented inside its class")
    above = first - 1 - len(headers)
    if above < 0:
        raise SyntaxError(f"no room above line {first} for the class of {qualname}")
    below = [f"import {', '.join(imports)}"] if imports else []
    text = "\n" * above + "\n".join([*headers, *block, *below]) + "\n"
    code: CodeType = compile(text, "<alone>", "exec", flags=future_flags & _FUTURE_FLAGS, dont_inherit=True)
    return code


def top_level_imports(source: str) -> list[str]:
    """The names that a module's own statements import, those under `if` and `try` included, sorted.

    Raises:
        SyntaxError, ValueError: the text does not parse.
    """
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names if alias.name != "*")
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting.extend(ast.iter_child_nodes(node))
    return sorted(names)


def is_same_code(left: CodeType, right: CodeType) -> bool:
    """Whether two code objects are equal, their lines included; only the file name may differ, and the columns.

    A process under -X no_debug_ranges writes `.pyc` files without columns, which the others read.
    """
    return _without_positions(left) == _without_positions(right) and _lines(left) == _lines(right)


def _without_positions(code: CodeType) -> CodeType:
    consts = tuple(_without_positions(const) if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_consts=consts, co_linetable=b"")


def _lines(code: CodeType) -> list[Any]:
    """The line of each instruction, those of inner code objects behind."""
    own: list[Any] = [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]
    return own + [_lines(const) for const in code.co_consts if isinstance(const, CodeType)]
