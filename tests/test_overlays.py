"""The manifests against the files, and the overlay functions against the stock modules whose globals they read."""

from __future__ import annotations

import ast
import builtins
import dis
import importlib
import inspect
import io
import json
import re
import tokenize
from pathlib import Path
from types import CodeType

import fix_helpers
import pytest
from conftest import CHECKOUT, RUNNER, UTILS

from gaudi_shadow import catalog
from gaudi_shadow.finder import TARGETS
from gaudi_shadow.graft import find_code
from gaudi_shadow.maintaining.definitions import definition_disagreement
from gaudi_shadow.outcome import APPLIED, NOT_NEEDED

OVERLAYS = CHECKOUT / "overlays"
RELEASES = sorted(path.parent.name for path in OVERLAYS.glob("*/manifest.json"))
FIXES = [(release, name) for release in RELEASES for name in catalog.overlay(release).fixes]
FILES = sorted(path.relative_to(OVERLAYS) for path in OVERLAYS.glob("*/**/*.py"))


def test_each_folder_is_an_overlay_and_says_its_own_name():
    assert RELEASES == ["v0.26.0", "v0.30.0"]
    assert sorted(path.name for path in OVERLAYS.iterdir()) == RELEASES
    for release in RELEASES:
        manifest = json.loads((OVERLAYS / release / "manifest.json").read_text("utf-8"))
        assert manifest["release"] == release


def test_the_fixes_of_each_release():
    budget, covered, merge = fix_helpers.BUDGET, fix_helpers.COVERED, fix_helpers.MERGE
    assert set(catalog.overlay("v0.26.0").fixes) == {budget, merge}
    assert set(catalog.overlay("v0.30.0").fixes) == {budget, merge, covered}


def test_the_finder_asks_for_just_the_modules_that_a_fix_changes():
    assert {catalog.overlay(release).fixes[name].module for release, name in FIXES} == set(TARGETS)


@pytest.mark.parametrize("release, name", FIXES)
def test_a_fix_has_its_function_its_module_and_its_page(release, name):
    overlay = catalog.overlay(release)
    fix = overlay.fixes[name]
    assert fix.name == name
    ours = catalog.overlay_function(overlay, fix.module, fix.function)
    assert Path(ours.co_filename).resolve().is_relative_to(OVERLAYS)
    module = importlib.import_module("gaudi_shadow.fixes." + name.replace("-", "_"))
    assert list(inspect.signature(module.configure).parameters) == ["on"]
    assert fix.switch == getattr(module, "VARIABLE", "")
    for words in (fix.summary, fix.affects, fix.upstream, fix.remove_when):
        assert words.strip()
    for fingerprint in (*fix.fingerprints, *fix.fixed_fingerprints):
        kind, _, digits = fingerprint.partition(":")
        assert kind == "sha256" and len(digits) == 64 and int(digits, 16)
    assert fix.fingerprints


HEADINGS = [
    "Problem",
    "Symptom",
    "Who is affected",
    "The fix",
    "Switch",
    "Verify",
    "Limits",
    "Upstream",
    "When to remove",
]


@pytest.mark.parametrize("name", sorted({name for _, name in FIXES}))
def test_a_fixs_page_says_what_the_manifest_says(name):
    fix = catalog.known_fixes()[name]
    page = (CHECKOUT / "docs" / f"{name}.md").read_text("utf-8")
    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    words = " ".join(page.split())
    rows = dict(re.findall(r"^\| (\w+) \| (.+) \|$", page, re.MULTILINE))
    assert fix.summary in words and f"## When to remove {fix.remove_when}." in words
    assert f"## Upstream {fix.upstream}.".lower() in words.lower()
    assert rows["affects"] == fix.affects and rows["upstream"] == fix.upstream
    assert rows["changes"] == f"`{fix.function}` in `{fix.module}`"
    assert rows["switch"] == (f"`{fix.switch}`" if fix.switch else "none: it is on wherever it is applied")
    releases = [release for release in RELEASES if name in catalog.overlay(release).fixes]
    assert rows["releases"].split(", and ")[0] == ", ".join(releases)
    assert f"gaudi-shadow check {name} " in page and f"VLLM_GAUDI_SHADOW_DISABLE={name}`" in page


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_defines_the_functions_of_its_fixes_and_nothing_else(file):
    release, inner = file.parts[0], Path(*file.parts[1:])
    module = ".".join(inner.with_suffix("").parts)
    expected = {fix.function for fix in catalog.overlay(release).fixes_of(module)}
    assert expected, f"{file} belongs to no fix"
    assert set(defined_in(ast.parse((OVERLAYS / file).read_text("utf-8")))) == expected


def defined_in(tree):
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{inner}" for inner in defined_in(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        else:
            assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant), ast.dump(node)


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_with_a_base_holds_only_what_differs(release):
    overlay = catalog.overlay(release)
    for file in (each for each in FILES if each.parts[0] == release):
        for base in overlay.lineage[1:]:
            there = OVERLAYS / base / Path(*file.parts[1:])
            if there.exists():
                bodies = [ast.dump(ast.parse(path.read_text("utf-8")).body[1]) for path in (OVERLAYS / file, there)]
                assert bodies[0] != bodies[1], f"{file} says what {base} says"
    if len(overlay.lineage) == 1:
        return
    stated = json.loads((OVERLAYS / release / "manifest.json").read_text("utf-8"))["fixes"]
    inherited = catalog.overlay(overlay.lineage[1]).fixes
    for name, entry in stated.items():
        for field, value in entry.items():
            same = name in inherited and getattr(inherited[name], field) == (
                tuple(value) if isinstance(value, list) else value
            )
            assert not same, f"{name}: {field} is its base's"


def globals_read(code: CodeType) -> set[str]:
    """The names that a code object and those inside it look up as globals, or would as a class body's names."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
    }
    return names.union(*(globals_read(const) for const in code.co_consts if isinstance(const, CodeType)))


def modules_imported(code: CodeType) -> set[str]:
    names = {each.argval for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"}
    return names.union(*(modules_imported(const) for const in code.co_consts if isinstance(const, CodeType)))


def top_level_names(source: str) -> set[str]:
    """What a module's own statements bind, those under `if`, `try` and `with` included."""
    names, waiting = set(), [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            waiting.extend(ast.iter_child_nodes(node))
    return names


def test_the_helpers_of_this_file_see_what_they_should():
    source = "import a.b as c, d.e\nif x:\n    y: int = 1\ndef f():\n    z = 1\n    return lambda: p(q.r)\n"
    assert top_level_names(source) == {"c", "d", "y", "f"}
    code = find_code(compile(source, "m", "exec"), "f")
    assert globals_read(code) == {"p", "q"}
    assert modules_imported(compile(source, "m", "exec")) == {"a.b", "d.e"}


@pytest.mark.parametrize("tree", fix_helpers.TREES)
@pytest.mark.parametrize("module", [RUNNER, UTILS])
def test_each_global_that_an_overlay_reads_is_in_the_stock_module(request, tree, module):
    target = fix_helpers.target(request, tree, module)
    decision = target.decision()
    assert decision.functions, [outcome.reason for outcome in decision.fixes]
    assert target.stock.source is not None and target.stock.code is not None
    there = top_level_names(target.stock.source) | set(dir(builtins))
    for qualname, code in decision.functions:
        assert globals_read(code) - there == set(), f"{qualname} of overlay {decision.overlay}"
        theirs = modules_imported(target.stock.code)
        ours = {name for name in modules_imported(code) if name.partition(".")[0] != "gaudi_shadow"}
        assert ours <= theirs, f"{qualname} imports what the stock module does not"


@pytest.mark.parametrize("module", [RUNNER, UTILS])
def test_the_manifest_knows_the_real_functions(request, module):
    target = fix_helpers.target(request, "real", module)
    decision = target.decision()
    states = {outcome.fix: outcome.state for outcome in decision.fixes}
    overlay = catalog.overlay(decision.overlay)
    assert states and set(states.values()) <= {APPLIED, NOT_NEEDED}, f"{decision.overlay}: {states}"
    found = target.stock.function(target.qualname).fingerprint
    for name, state in states.items():
        if state == APPLIED:
            assert found in overlay.fixes[name].fingerprints
            file = Path(catalog.overlay_function(overlay, module, target.qualname).co_filename)
            assert decision.overlay in file.parts
            ours = catalog.overlay_block(overlay, module, target.qualname)
            assert definition_disagreement(target.stock.function(target.qualname).block, ours) is None


SAYS_LITTLE = re.compile(r"""[#"@]|(import|from|class|def) |\w+: [\w.]+,$|[\w.]+\(\)$""")


def telling_lines(source: str) -> set[str]:
    """The lines that say more than a name, an import, a signature or a call without arguments: six tokens or more."""
    lines = set()
    for line in source.splitlines():
        text = line.strip()
        if not text or SAYS_LITTLE.match(text):
            continue
        try:
            tokens = [each for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.string.strip()]
        except (tokenize.TokenError, SyntaxError):
            tokens = text.split()
        if len(tokens) >= 6:
            lines.add(text)
    return lines


OURS = [*(OVERLAYS / file for file in FILES), *sorted((CHECKOUT / "gaudi_shadow" / "fixes").glob("*.py"))]
OURS += sorted((CHECKOUT / "gaudi_shadow" / "demo" / "release" / "vllm_gaudi").rglob("*.py"))


def test_no_line_of_ours_is_the_releases(release_root):
    theirs = set()
    for module in TARGETS:
        theirs |= telling_lines(release_root.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8"))
    assert len(theirs) > 1000
    for path in OURS:
        assert telling_lines(path.read_text("utf-8")) & theirs == set(), path
