"""Equal canonical text means equal code: held against thousands of edits of functions of the standard library."""

from __future__ import annotations

import ast
import json
import os
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from activation.interpreters import supported
from adversity.light import CHECKOUT
from conftest import clean_environment, run_python
from drift_file_mutations import FILES
from drift_structure_mutations import STRUCTURE
from drift_target import Function, Target, first_line
from drift_text_mutations import TEXT

from gaudi_shadow.fingerprint import UnreadableBlock, canonical_text, function_block, plain_lines

SOURCES = (
    "argparse",
    "ast",
    "dataclasses",
    "functools",
    "inspect",
    "pathlib",
    "tarfile",
    "textwrap",
    "turtle",
    "typing",
)
# What these do stays within the function, and it gives text.
KINDS = [
    mutation
    for mutation in [*TEXT, *FILES, *STRUCTURE]
    if "inside" in mutation.kind
    or mutation.kind.startswith(("comment ", "statement ", "signature", "decorator", "tabs"))
    if mutation.kind != "latin-1 inside"
]


@cache
def functions() -> list[Target]:
    """Functions of the standard library, each as a module of its own in which it stands as in its file."""
    found = []
    for name in SOURCES:
        path = Path(os.__file__).parent / f"{name}.py"
        lines = path.read_text("utf-8").split("\n")
        for node in ast.walk(ast.parse("\n".join(lines))):
            if not isinstance(node, Function):
                continue
            own = lines[first_line(node) - 1 : node.end_lineno]
            alone = (*(["if 1:"] if own[0][:1].isspace() else []), *own, "")
            inner = [each for each in ast.walk(ast.parse("\n".join(alone))) if isinstance(each, Function)]
            found.append(Target(name, node.name, alone, inner[0], (1, len(alone))))
    return found


def canonical(text: str, first: int) -> str | None:
    try:
        return canonical_text(function_block(plain_lines(text), first))
    except UnreadableBlock:
        return None


def meaning(text: str, first: int) -> str | None:
    """The function at a line as Python's own parser reads it; None when it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nodes = ast.walk(ast.parse(text))
        except (SyntaxError, ValueError):
            return None
    return next((ast.dump(node) for node in nodes if isinstance(node, Function) and first_line(node) == first), "none")


def edits(count: int, seed: int) -> Iterator[tuple[str, Target, str, bool]]:
    dice = random.Random(seed)
    while count:
        target, mutation = dice.choice(functions()), dice.choice(KINDS)
        try:
            text = mutation.make(target, dice)
        except (IndexError, SyntaxError):  # there is nothing of that kind in this function
            continue
        assert isinstance(text, str), mutation.kind
        yield mutation.kind, target, text, mutation.neutral
        count -= 1


def test_no_edit_keeps_the_text_and_changes_the_meaning() -> None:
    seen: Counter[str] = Counter()
    for kind, target, text, neutral in edits(1500, 5):
        before, after = canonical(target.text, target.first), canonical(text, target.first)
        assert before is not None, f"{target.module}.{target.qualname} cannot be read"
        parsed = meaning(text, target.first)
        seen["same" if before == after else "other"] += 1
        if before == after and parsed is not None:
            assert parsed == meaning(target.text, target.first), f"{kind} of {target.module}.{target.qualname}:\n{text}"
        if neutral:
            assert before == after, f"{kind} of {target.module}.{target.qualname}:\n{text}"
    print(seen)
    assert min(seen.values()) > 300


def test_a_blank_line_behind_a_backslash_counts() -> None:
    one, two = "def f(a):\n    return a \\\n    + 1\n", "def f(a):\n    return a \\\n\n    + 1\n"
    assert ast.dump(ast.parse(one)) != ast.dump(ast.parse(two))
    assert canonical(one, 1) != canonical(two, 1)


HASH_ALL = """
import ast, json, sys
sys.path.insert(0, sys.argv[1])
from gaudi_shadow.fingerprint import fingerprint, function_block, plain_lines
found = []
for path in json.loads(sys.argv[2]):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.append(node.name + fingerprint(function_block(plain_lines(text), first)))
print(json.dumps(sorted(found)))
"""


@pytest.mark.skipif(
    len(supported()) < 2, reason="needs a second Python from 3.10 on, in PYENV_ROOT or in the usual folders"
)
def test_every_python_gives_the_same_fingerprints(tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    odd.write_text(
        "class C:\n    @property\n    def f(self):  # a\n\n        return f'''x\n  {self!r:>{len('#')}} # none\n'''\n"
        "    async def g(self, *, a=(1,\n   2)): return 'a\\\n   b' \\\n  + '#'  # end\n\x0c\n"
        "    def h(self):\n        '''doc\n\n      string   \n        '''\n        # a\n      # b\n        return 1\n",
        "utf-8",
    )
    files = [*sorted((CHECKOUT / "gaudi_shadow").glob("*.py")), *sorted((CHECKOUT / "tests").glob("*.py")), odd]
    answers = {
        version: run_python(
            "-c", HASH_ALL, CHECKOUT, json.dumps([*map(str, files)]), python=python, env=clean_environment()
        )
        for version, python in supported().items()
    }
    for version, answer in answers.items():
        assert answer.returncode == 0, f"{version}: {answer.stderr}"
    hashes = {version: json.loads(answer.stdout) for version, answer in answers.items()}
    one = next(iter(hashes.values()))
    assert len(one) > 300
    assert all(each == one for each in hashes.values()), {version: len(each) for version, each in hashes.items()}
