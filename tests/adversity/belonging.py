"""Run by every Python: does bytecode belong to a text? Prints one JSON object; needs nothing but gaudi_shadow."""

import json
import os
import sys

from gaudi_shadow.fingerprint import UnreadableBlock
from gaudi_shadow.graft import CannotGraft
from gaudi_shadow.stock import StockModule

# CPython compiles `name.method()` in its own way where the module imports `name`, wherever in the module that is.
IMPORTS = """
import one, two.deep, three.deep as three
from four import five, six as seven
try:
    import eight
except ImportError:
    eight = None
if len(__name__):
    import nine
for ten in []:
    import eleven
with memoryview(b""):
    from twelve import thirteen
while False:
    import fourteen
match 1:
    case 2:
        import fifteen
    case _:
        import sixteen
class C:
    import seventeen
def function():
    import eighteen
    global nineteen
    import nineteen
"""
NAMES = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "self", "other", "__name__", "print"),
)

# What the text says, and what the bytecode was made from: at the same lines.
PAIRS = {
    "the same": ("def f(a, b=1):\n    return a.x(b)\n",) * 2,
    "a constant": ("def f(a):\n    return 1\n", "def f(a):\n    return 2\n"),
    "a constant's type": ("def f(a):\n    return 1\n", "def f(a):\n    return True\n"),
    "a constant's sign": ("def f(a):\n    return 0.0\n", "def f(a):\n    return -0.0\n"),
    "an operation": ("def f(a):\n    return a + 1\n", "def f(a):\n    return a - 1\n"),
    "a name": ("def f(a):\n    return b\n", "def f(a):\n    return c\n"),
    "an argument": ("def f(a):\n    return 1\n", "def f(b):\n    return 1\n"),
    "a default": ("def f(a=1):\n    return a\n", "def f(a=2):\n    return a\n"),
    "a default more": ("def f(a):\n    return a\n", "def f(a=None):\n    return a\n"),
    "a keyword's default": ("def f(*, a=1):\n    return a\n", "def f(*, a=2):\n    return a\n"),
    "an annotation": ("def f(a: int):\n    return a\n", "def f(a: str):\n    return a\n"),
    "a decorator": ("@one\ndef f(a):\n    return a\n", "@two\ndef f(a):\n    return a\n"),
    "the decorators' order": ("@one\n@two\ndef f(a):\n    return a\n", "@two\n@one\ndef f(a):\n    return a\n"),
    "a decorator's argument": ("@one(1)\ndef f(a):\n    return a\n", "@one(2)\ndef f(a):\n    return a\n"),
    "a decorator more": ("\ndef f(a):\n    return a\n", "@one\ndef f(a):\n    return a\n"),
    "a line": ("def f(a):\n    return a\n", "def f(a):\n\n    return a\n"),
    "a line inside": ("def f(a):\n    a = 1\n    return a\n", "def f(a):\n    a = 1\n\n    return a\n"),
    "a nested function": ("def f(a):\n    return lambda: 1\n", "def f(a):\n    return lambda: 2\n"),
    "a nested line": ("def f(a):\n    def g():\n        return 1\n", "def f(a):\n    def g():\n\n        return 1\n"),
    "a handler": ("def f():\n    try: a()\n    except A: b()\n", "def f():\n    try: a()\n    except B: b()\n"),
    "a docstring": ("def f(a):\n    '''one'''\n", "def f(a):\n    '''two'''\n"),
    "its kind": ("def f(a):\n    return 1\n", "async def f(a):\n    return 1\n"),
    "a future": ("def f(a: int):\n    return a\n", "from __future__ import annotations\ndef f(a: int): return a\n"),
}  # fmt: skip


def belongs(source, compiled, qualname):
    """True or False; None where the function cannot even be read."""
    module = StockModule("m", "m.py", compile(compiled, "m.py", "exec", dont_inherit=True), source, None)
    try:
        return module.function(qualname).bytecode_matches
    except (CannotGraft, UnreadableBlock):
        return None


def in_class(text):
    return "import x\nclass C:\n" + "".join("    " + line + "\n" if line else "\n" for line in text.split("\n"))


def all_of(path):
    """How many functions of a file there are, and those whose bytecode is said not to belong to the text."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    code = compile(text, path, "exec", dont_inherit=True)
    module = StockModule("m", path, code, text, None)
    names, waiting = [], [(code, "")]
    while waiting:
        around, prefix = waiting.pop()
        for const in around.co_consts:
            if hasattr(const, "co_name") and not const.co_name.startswith("<"):
                names.append(prefix + const.co_name)
                if not const.co_flags & 2:  # CO_NEWLOCALS: a class has none
                    waiting.append((const, prefix + const.co_name + "."))
    count, wrong = 0, []
    for name in names:
        try:
            function = module.function(name)
        except (CannotGraft, UnreadableBlock):
            continue
        count += 1
        if not function.bytecode_matches:
            wrong.append(name)
    return count, wrong


def main():
    found = {"pairs": {}, "in a class": {}, "imports": {}, "library": {}}
    for name, (source, compiled) in PAIRS.items():
        found["pairs"][name] = belongs(source, compiled, "f")
        if name != "a future":
            found["in a class"][name] = belongs(in_class(source), in_class(compiled), "C.f")
    for name in NAMES:
        text = IMPORTS + "\ndef f(self, other, *a):\n    %s.method(%s.other(1), x=self)\n    return %s.value\n" % (
            (name,) * 3
        )
        found["imports"][name] = belongs(text, text, "f")
    for name in ("dataclasses", "tarfile"):
        path = os.path.join(os.path.dirname(os.__file__), name + ".py")
        if os.path.exists(path):
            found["library"][name] = all_of(path)
    json.dump(found, sys.stdout)


main()
