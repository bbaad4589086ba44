"""Which module imports which, read from the source: the layers of docs/how-it-works.md, and what must stay light."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import CHECKOUT

PACKAGE = CHECKOUT / "gaudi_shadow"
PAGE = CHECKOUT / "docs" / "how-it-works.md"
OURS = "gaudi_shadow"
PURE = ("fingerprint", "graft", "manifest")
NOT_OURS_TO_IMPORT = ("overlays", "demo/release", "__pycache__")


@cache
def sources() -> dict[str, Path]:
    """Module name without the leading "gaudi_shadow." -> file; the package itself is "gaudi_shadow"."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        relative = path.relative_to(PACKAGE)
        if relative.as_posix().startswith(NOT_OURS_TO_IMPORT):
            continue
        name = ".".join(relative.with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[name or OURS] = path
    return found


def nodes_with_place(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it is executed only when a function is called; TYPE_CHECKING blocks are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node, inside
        called = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from nodes_with_place(node, inside or called)


def names_in(node: ast.AST) -> Iterator[str]:
    """The modules that a statement imports, as absolute names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "the package imports by absolute names"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}".removeprefix(OURS + ".")
            yield f"{OURS}.{inner}" if node.module.split(".")[0] == OURS and inner in sources() else node.module


@cache
def imports_of(module: str) -> tuple[frozenset[str], frozenset[str]]:
    """What a module imports when it is imported, and what only when a function of it is called."""
    found: dict[bool, set[str]] = {False: set(), True: set()}
    for node, inside in nodes_with_place(ast.parse(sources()[module].read_text("utf-8"))):
        found[inside].update(names_in(node))
    return frozenset(found[False]), frozenset(found[True])


def of_ours(names: frozenset[str]) -> set[str]:
    return {name.removeprefix(OURS + ".") for name in names if name.split(".")[0] == OURS}


@cache
def layers() -> tuple[dict[str, int], set[tuple[str, str]]]:
    """From the page: module -> its line, counted from the top; and the pairs that may point up."""
    block = re.search(r"^```layers\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    lines = block[1].splitlines()
    rank = {name: number for number, line in enumerate(lines) for name in re.split(r"\s{2,}", line)[0].split()}
    up = {pair for line in lines for pair in re.findall(r"(\w+) ~> (\w+)", line)}
    return rank, up


def test_every_process_imports_next_to_nothing() -> None:
    assert imports_of(OURS)[0] == set()
    assert imports_of("finder")[0] == {"sys", "os"}
    assert imports_of("startup")[0] == {"gaudi_shadow.finder"}


@pytest.mark.parametrize("module", PURE)
def test_the_pure_parts_import_none_of_ours(module: str) -> None:
    at_import, when_called = imports_of(module)
    assert of_ours(at_import | when_called) == set()


def test_imports_point_down_as_the_page_says() -> None:
    rank, up = layers()
    for module, line in rank.items():
        at_import, when_called = imports_of(module)
        for name in of_ours(at_import) - {OURS}:
            assert rank.get(name, -1) > line, f"{module} imports {name}, which {PAGE.name} does not place below it"
        for name in of_ours(when_called) - {OURS}:
            assert rank.get(name, -1) > line or (module, name) in up, f"{module} imports {name} when called"


def test_the_page_names_no_import_that_is_gone() -> None:
    rank, up = layers()
    assert set(rank) <= set(sources())
    for module, name in up:
        assert name in of_ours(imports_of(module)[1])
        assert rank[name] < rank[module]


def test_the_import_path_is_on_the_page() -> None:
    rank, _ = layers()
    waiting, reached = ["startup", "finder", "plugin"], set()
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += of_ours(frozenset().union(*imports_of(module))) - {OURS}
    assert {name for name in reached if not name.startswith("fixes")} == set(rank)


def test_the_fixes_import_little() -> None:
    fixes = {name for name in sources() if name.startswith("fixes.")}
    assert len(fixes) > 3
    for module in fixes:
        allowed = {"counters", "messages", "fixes", *fixes, OURS}
        assert of_ours(frozenset().union(*imports_of(module))) <= allowed


def test_no_module_imports_itself_in_a_circle() -> None:
    done: set[str] = set()

    def follow(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a circle: {' -> '.join([*path, module])}"
        if module not in done:
            for name in of_ours(imports_of(module)[0]) - {OURS}:
                follow(name, (*path, module))
            done.add(module)

    for module in sources():
        follow(module, ())
