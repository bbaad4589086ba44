"""Mutations of what a module defines: signatures, decorators, second definitions, moved classes, rebinding."""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Callable

from drift_target import Make, Mutation, Target


def _appended(*choices: str) -> Make:
    """Statements at the module's end; {path}, {name} and {owner} stand for the target's."""

    def make(target: Target, dice: random.Random) -> str:
        words = {"path": target.qualname, "name": target.name, "owner": target.owner or target.name}
        return target.text + "\n" + dice.choice(choices).format(**words) + "\n"

    return make


def _behind_function(*choices: str) -> Make:
    """Statements directly behind the function, in its own scope."""

    def make(target: Target, dice: random.Random) -> str:
        text = dice.choice(choices).format(name=target.name)
        return target.with_function([*target.own_lines(), *textwrap.indent(text, target.indent).split("\n")])

    return make


def _unparsed(change: Callable[[ast.arguments, Target, random.Random], None]) -> Make:
    """The function with another signature, its body as it was."""

    def make(target: Target, dice: random.Random) -> str:
        function = ast.parse(textwrap.dedent("\n".join(target.own_lines()))).body[0]
        assert isinstance(function, ast.FunctionDef)
        body_first = function.body[0].lineno
        change(function.args, target, dice)
        function.body = [ast.Pass()]
        header = textwrap.indent(ast.unparse(function).removesuffix("\n    pass"), target.indent)
        return target.with_function([*header.split("\n"), *target.own_lines()[body_first - 1 :]])

    return make


def _change_signature(arguments: ast.arguments, target: Target, dice: random.Random) -> None:
    how = dice.choice(("default", "rename", "star", "keyword only", "drop", "add", "annotation"))
    if how == "default":
        arguments.defaults = [ast.Constant(dice.choice((None, 1)))]
    elif how == "rename":
        dice.choice(arguments.args).arg = "mutant"
    elif how == "star":
        arguments.vararg = ast.arg("mutants")
    elif how == "keyword only":
        arguments.kwonlyargs, arguments.kw_defaults = [arguments.args.pop()], [None]
    elif how == "drop":
        arguments.args.pop()
    elif how == "add":
        arguments.args.append(ast.arg("mutant"))
    else:
        dice.choice(arguments.args).annotation = ast.Constant("mutant")


def decorator(target: Target, dice: random.Random) -> str:
    """A decorator on the function: one that keeps it, one that wraps it, a descriptor."""
    choice = dice.choice(("staticmethod", "property", "(lambda f: f)", "(lambda f: lambda *a: f(*a))"))
    return target.with_function([f"{target.indent}@{choice}", *target.own_lines()])


def class_decorator(target: Target, dice: random.Random) -> str:
    """A decorator on the class, or on the function where there is no class."""
    lines = list(target.lines)
    choice = dice.choice(("(lambda c: c)", "(lambda c: None)", "(lambda c: type(c.__name__, (c,), {}))"))
    lines.insert(target.scope[0] - 1 if target.owner else target.first - 1, f"@{choice}")
    return "\n".join(lines)


def added_statement(target: Target, dice: random.Random) -> str:
    """A statement added to the function: super(), a closure, a global, a yield, ..."""
    extra = ("super()", "__class__", "(lambda: self)", "global mutant", "yield", "pass", "return", "mutant = 1",
             "'''a string'''", "(lambda: inputs_embeds)", "del self", "import os", "raise", "...")  # fmt: skip
    statement = dice.choice(target.statements())
    lines = list(target.lines)
    lines.insert(statement.lineno - 1, " " * statement.col_offset + dice.choice(extra))
    return "\n".join(lines)


def removed_statement(target: Target, dice: random.Random) -> str:
    """A statement of the function replaced by pass, by another of its statements, or put under `if`."""
    lines, statement = list(target.lines), dice.choice(target.statements())
    first, last = statement.lineno - 1, statement.end_lineno or 0
    space, old = " " * statement.col_offset, lines[first:last]
    other = dice.choice(target.statements())
    text = textwrap.dedent("\n".join(lines[other.lineno - 1 : other.end_lineno]))
    lines[first:last] = dice.choice(
        ([f"{space}pass"], textwrap.indent(text, space).split("\n"), [f"{space}if True:", *("    " + o for o in old)])
    )
    return "\n".join(lines)


def second_definition(target: Target, dice: random.Random) -> str:
    """The function's name defined twice in its scope: the same text, or another."""
    own = target.own_lines()
    header = own[: target.function.body[0].lineno - target.first]
    other = dice.choice((own, [*header, target.indent + "    return 'mutant'"]))
    first_copy = [line.replace(f"def {target.name}", f"def {target.name}", 1) for line in other]
    return target.with_function(dice.choice(([*own, "", *first_copy], [*first_copy, "", *own])))


def conditional(target: Target, dice: random.Random) -> str:
    """The function under a condition, with or without another definition in the other branch."""
    space, own = target.indent, [("    " + line) if line.strip() else line for line in target.own_lines()]
    other = [f"{space}    {target.name} = len"]
    before, after = dice.choice(
        (
            ([f"{space}if True:"], []),
            ([f"{space}if 0 == len(__name__):"], []),
            ([f"{space}if len(__name__):"], [f"{space}else:", *other]),
            ([f"{space}if not len(__name__):"], [f"{space}else:", *other]),
            ([f"{space}try:", *other, f"{space}except ImportError:"], []),
            ([f"{space}try:"], [f"{space}finally:", *other]),
            ([f"{space}for _mutant in range(2):"], []),
            ([f"{space}with memoryview(b''):"], []),
        )
    )
    return target.with_function([*before, *own, *after])


def moved(target: Target, dice: random.Random) -> str:
    """The scope that holds the function under `if`, in another class, or in a function."""
    first, last = target.scope if target.owner else (target.first, target.last)
    lines = list(target.lines)
    body = [("    " + line) if line.strip() else line for line in lines[first - 1 : last]]
    top = target.owner or target.name
    before, after = dice.choice(
        (
            (["if True:"], []),
            (["class _Mutant:"], [f"{top} = _Mutant.{top}"]),
            (["def _mutant():"], [f"    return {top}", f"{top} = _mutant()"]),
            (["def _mutant():"], ["", f"class {top}:", "    pass"]),
            ([f"class {top}:"], []),
            ([f"def {top}():"], []),
        )
    )
    return "\n".join([*lines[: first - 1], *before, *body, *after, *lines[last:]])


def renamed_away(target: Target, dice: random.Random) -> str:
    """The function or its class renamed, with or without an alias of the old name."""
    old = dice.choice((target.owner or target.name, target.name))
    alias = dice.choice(("", f"\n{old} = Mutant\n", f"\n{target.owner or target.name}.{target.name} = len\n"))
    return target.text.replace(f"class {old}", "class Mutant").replace(f"def {old}", "def Mutant") + alias


REBOUND = _appended(
    "{path} = lambda *args: 'mutant'",
    "_old = {path}\ndef _mutant(*args):\n    return _old(*args)\n{path} = _mutant",
    "import functools\n_old = {path}\n@functools.wraps(_old)\ndef _mutant(*args):\n    return _old(*args)\n"
    "{path} = _mutant",
    "import functools\n{path} = functools.partial({path})",
    "import functools\n_old = {path}\n@functools.wraps(_old)\ndef _mutant(*args):\n    return 1\n_mutant.__wrapped__ = "
    "_mutant\n{path} = _mutant",
    "del {path}",
    "{path} = None",
    "{path} = 5",
    "{path}.__code__ = (lambda *args: 'mutant').__code__",
    "{path}.__defaults__ = (1, 2)",
    "_kept = [{path}]\n{path} = len",
    "_kept = {path}\n_kept2 = classmethod(_kept)\n{path} = property(lambda self: _kept)",
    "globals()['{owner}'] = None",
    "globals()['{owner}'] = 5",
    "globals().pop('{owner}')",
    "exec('def {name}(*args):\\n    return 1'); {path} = {name}",
    "{owner} = type('{owner}', (), {{'{name}': len}})",
    "{owner} = object()",
    "for {owner} in [1, 2]:\n    pass",
    "import os as {owner}",
    "class {owner}:\n    pass",
    "def {owner}():\n    pass",
    "raise ValueError('the end')",
    "import sys; del sys.modules[__name__]",
    "import sys, types; sys.modules[__name__] = types.ModuleType(__name__)",
)
SUBCLASSED = _appended(
    "if isinstance({owner}, type):\n    class _Mutant({owner}):\n        pass\n    {owner} = _Mutant",
    "if isinstance({owner}, type):\n    setattr({owner}, '{name}', classmethod(len))",
    "if isinstance({owner}, type):\n    class _Mutant({owner}):\n        def {name}(self):\n            return 1\n"
    "    {owner} = _Mutant",
)
IN_SCOPE = _behind_function(
    "{name} = len",
    "{name} = staticmethod({name})",
    "{name} = property({name})",
    "{name} = (lambda f: lambda *args: f(*args))({name})",
    "del {name}",
    "_kept = {name}\n{name} = len",
    "({name} := len)",
    "import os as {name}",
    "class {name}:\n    pass",
    "{name}.__code__ = (lambda *args: 1).__code__",
    "locals()['{name}'] = len",
    "for {name} in [len]:\n    pass",
    "type {name} = int",
)

STRUCTURE = [
    Mutation("signature", _unparsed(_change_signature), 8),
    Mutation("decorator", decorator, 3),
    Mutation("class decorator", class_decorator, 2),
    Mutation("statement added", added_statement, 6),
    Mutation("statement replaced", removed_statement, 6),
    Mutation("second definition", second_definition, 3),
    Mutation("conditional definition", conditional, 5),
    Mutation("moved", moved, 4),
    Mutation("renamed away", renamed_away, 3),
    Mutation("rebound at the end", REBOUND, 8),
    Mutation("class replaced by a subclass", SUBCLASSED, 2),
    Mutation("rebound in its scope", IN_SCOPE, 6),
    Mutation("kept under another name", _appended("_kept = {path}", "_kept = [{path}]"), 1, neutral=True),
]
