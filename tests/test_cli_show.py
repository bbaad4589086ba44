"""`show` and `diff`: the text is what the graft executes, and nothing else differs from stock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from command_line import gaudi_shadow, script_for
from conftest import CHECKOUT, RUNNER, UTILS, Workshop, clean_environment, run_python

RELEASES = ("v0.26.0", "v0.30.0")
FUNCTIONS = {RUNNER: "HPUModelRunner._execute_mm_encoder", UTILS: "_merge_multimodal_embeddings"}

# Lines, columns and file names are what may differ; the future flags of a module reach the functions compiled in it.
COMPARE = """
import importlib.util, json, sys
from types import CodeType

def essence(code):
    consts = [essence(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    flags = code.co_flags & 0xFFF
    names = [code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    return [code.co_code.hex(), consts, flags, code.co_argcount, code.co_kwonlyargcount, *map(list, names)]

def functions(code, prefix=""):
    found = {}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            # A class body is no function; that of the graft evaluates the stock annotations, which the text leaves out.
            if const.co_flags & 1:
                found[prefix + const.co_name] = const
            found.update(functions(const, prefix + const.co_name + "."))
    return found

def grafted(name):
    sys.path.insert(0, sys.argv[1])
    loader = importlib.util.find_spec(name).loader
    assert type(loader).__name__ == "ShadowLoader"
    return loader.get_code(name)

name, shown = sys.argv[2:]
executed = functions(grafted(name))
composed = functions(compile(open(shown, encoding="utf-8").read(), shown, "exec", dont_inherit=True))
print(json.dumps({
    "same names": list(executed) == list(composed),
    "different": [qualname for qualname in executed if essence(executed[qualname]) != essence(composed[qualname])],
    "ours": [qualname for qualname, code in executed.items() if "/overlays/" in code.co_filename],
}))
"""


def module_file(module: str) -> str:
    return module.replace(".", "/") + ".py"


def show(hook: Path, tree: Path, module: str, **variables: str) -> str:
    environment = clean_environment(PYTHONPATH=str(hook), **variables)
    done = gaudi_shadow(hook, "show", module, "--root", tree, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def assert_shown_is_executed(hook: Path, tree: Path, module: str, folder: Path) -> None:
    shown, script = folder / "shown.py", folder / "compare.py"
    shown.write_text(show(hook, tree, module), "utf-8")
    script.write_text(COMPARE, "utf-8")
    done = run_python(script, tree, module, shown, env=clean_environment(PYTHONPATH=str(hook)), cwd=folder)
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)
    assert FUNCTIONS[module] in compared["ours"]
    assert compared | {"ours": []} == {"same names": True, "different": [], "ours": []}


def assert_only_the_function_differs(hook: Path, tree: Path, module: str) -> None:
    stock = (tree / module_file(module)).read_text("utf-8").split("\n")
    shown = show(hook, tree, module).split("\n")
    name = FUNCTIONS[module].split(".")[-1]
    first = next(row for row, line in enumerate(stock) if line.lstrip().startswith(f"def {name}("))
    assert shown[:first] == stock[:first]
    assert shown[first] != stock[first] or shown[first + 1] != stock[first + 1]
    indent = stock[first][: len(stock[first]) - len(stock[first].lstrip())]
    behind = first + 1
    while not stock[behind].startswith((indent + "def ", indent + "# ", "utils.", "class ")):
        behind += 1
    assert shown[behind - len(stock) :] == stock[behind:]


@pytest.mark.parametrize("module", sorted(FUNCTIONS))
@pytest.mark.parametrize("release", RELEASES)
def test_what_is_shown_is_what_is_executed(workshop: Workshop, tmp_path: Path, release: str, module: str) -> None:
    assert_shown_is_executed(workshop.hook, workshop.trees[release], module, tmp_path)
    assert_only_the_function_differs(workshop.hook, workshop.trees[release], module)


@pytest.mark.parametrize("module", sorted(FUNCTIONS))
def test_what_is_shown_of_a_real_release_is_what_is_executed(release_root: Path, tmp_path: Path, module: str) -> None:
    tree = tmp_path / "tree"
    # What is executed on the way to a target is not needed here, and needs vLLM.
    shutil.copytree(release_root / "vllm_gaudi", tree / "vllm_gaudi")
    for path in tree.rglob("__init__.py"):
        path.write_text("")
    hook = tmp_path / "hook"
    hook.symlink_to(CHECKOUT)
    assert_shown_is_executed(hook, tree, module, tmp_path)


def test_the_overlay_is_indented_as_the_stock_function_but_its_strings_are_not(
    own_workshop: Workshop, tmp_path: Path
) -> None:
    tree, overlays = own_workshop.trees["v0.26.0"], own_workshop.hook / "gaudi_shadow" / "overlays"
    stock = tree / module_file(RUNNER)
    head, line, body = stock.read_text("utf-8").partition("class HPUModelRunner:\n")
    stock.write_text(head + line + textwrap.indent(body, "  "), "utf-8")
    ours = overlays / "v0.26.0" / module_file(RUNNER)
    before, call, after = ours.read_text("utf-8").partition("        encode_uncached(\n")
    assert call
    added = '        text = """a string\n  of its own\n\n   """\n        assert text and f"""{\n  text}\n """\n'
    ours.write_text(before + added + call + after, "utf-8")
    assert_shown_is_executed(own_workshop.hook, tree, RUNNER, tmp_path)
    shown = show(own_workshop.hook, tree, RUNNER)
    assert "\n          encode_uncached(\n" in shown
    assert '"""a string\n  of its own\n\n   """\n' in shown


def test_diff_is_a_patch_that_makes_what_show_prints(own_workshop: Workshop, tmp_path: Path) -> None:
    if shutil.which("patch") is None:
        pytest.skip("needs the program patch")
    tree = own_workshop.trees["v0.26.0"]
    last = tree / module_file(RUNNER)
    last.write_text(last.read_text("utf-8").rstrip("\n"), "utf-8")
    shown = {module: show(own_workshop.hook, tree, module) for module in FUNCTIONS}
    done = gaudi_shadow(own_workshop.hook, "diff", env=own_workshop.environment("v0.26.0"))
    assert (done.returncode, done.stderr) == (0, "")
    subprocess.run(["patch", "-p1", "-d", tree], input=done.stdout, text=True, check=True, capture_output=True)
    assert {module: (tree / module_file(module)).read_text("utf-8") for module in FUNCTIONS} == shown


@pytest.mark.parametrize("name", [UTILS, module_file(UTILS), "vllm_gaudi/models/utils"])
def test_a_module_goes_by_its_name_or_its_path(workshop: Workshop, name: str) -> None:
    done = gaudi_shadow(workshop.hook, "diff", name, env=workshop.environment("v0.26.0"))
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("---")] == [f"--- a/{module_file(UTILS)}"]


@pytest.mark.parametrize("command", ["show", "diff"])
def test_an_unknown_module_lists_what_there_is(workshop: Workshop, command: str) -> None:
    done = gaudi_shadow(workshop.hook, command, "vllm_gaudi.platform", env=workshop.environment("v0.26.0"))
    assert (done.returncode, done.stdout) == (64, "")
    assert UTILS in done.stderr and RUNNER in done.stderr


def test_the_text_does_not_need_an_active_hook(workshop: Workshop) -> None:
    active = show(workshop.hook, workshop.trees["v0.26.0"], UTILS)
    assert show(workshop.hook, workshop.trees["v0.26.0"], UTILS, VLLM_GAUDI_SHADOW="0") == active


def test_a_module_that_cannot_be_patched_is_told_in_one_line(own_workshop: Workshop) -> None:
    path = own_workshop.trees["v0.26.0"] / module_file(RUNNER)
    path.write_text(path.read_text("utf-8").replace("if not missing:", "if  not missing:"), "utf-8")
    environment = own_workshop.environment("v0.26.0")
    done = gaudi_shadow(own_workshop.hook, "show", RUNNER, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gaudi-shadow: {RUNNER} is not patched: mm-encoder-budget drifted: ")
    assert done.stderr.count("\n") == 1
    both = gaudi_shadow(own_workshop.hook, "diff", env=environment)
    assert (both.returncode, both.stderr) == (2, done.stderr)
    assert module_file(UTILS) in both.stdout and module_file(RUNNER) not in both.stdout


def test_a_disabled_fix_has_no_text(workshop: Workshop) -> None:
    environment = workshop.environment("v0.26.0", VLLM_GAUDI_SHADOW_DISABLE="mm-merge-idxcopy")
    done = gaudi_shadow(workshop.hook, "show", UTILS, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert "mm-merge-idxcopy disabled" in done.stderr


def test_texts_go_out_byte_for_byte_in_any_locale(own_workshop: Workshop) -> None:
    tree = own_workshop.trees["v0.26.0"]
    path = tree / module_file(UTILS)
    path.write_text(path.read_text("utf-8") + "# h\u00e9 \u2192\n", "utf-8")
    environment = own_workshop.environment("v0.26.0", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    script = script_for(own_workshop.hook)
    done = subprocess.run(
        [shutil.which("python3") or "python3", script, "show", UTILS], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("# h\u00e9 \u2192\n".encode())


def test_a_reader_that_has_gone_is_no_fault_of_ours(workshop: Workshop) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        command = ["python3", script_for(workshop.hook), "show", UTILS]
        environment = workshop.environment("v0.26.0")
        done = subprocess.run(command, env=environment, stdout=write_end, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")
