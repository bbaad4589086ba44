"""The claims of SECURITY.md, one test or more for each; the claim's words are the test's name."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from adversity.light import ASK, RELEASE, TARGETS, Answer, ask, make_light, target_file
from command_line import gaudi_shadow
from conftest import CHECKOUT, RUNNER, UTILS, Workshop, bare_python, clean_environment, run_python

PACKAGE = CHECKOUT / "gaudi_shadow"
# What an attacker may have put into a folder that a victim starts Python in.
NAMES = (
    "gaudi_shadow",
    "packaging",
    "json",
    "sitecustomize",
    "usercustomize",
    "tokenize",
    "hashlib",
    "ast",
    "threading",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder full of modules of our names and of names that we import; each leaves a mark when it is executed."""
    folder, marks = tmp_path / "hostile", tmp_path / "marks"
    marks.mkdir()
    for name in NAMES:
        mark = f"open({str(marks / name)!r}, 'w').close()\n"
        for path in (folder / f"{name}.py", folder / name / "__init__.py"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(mark, "utf-8")
    shutil.copytree(PACKAGE.parent / "overlays", folder / "overlays")
    for path in (folder / "overlays").rglob("*.py"):
        path.write_text(f"open({str(marks / 'overlays')!r}, 'w').close()\n" + path.read_text("utf-8"), "utf-8")
    shutil.copytree(folder / "overlays", folder / "gaudi_shadow" / "overlays")
    return folder


def marks(hostile: Path) -> list[str]:
    return sorted(os.listdir(hostile.parent / "marks"))


# --- the current folder -----------------------------------------------------------------------------------------------


def test_starting_python_in_a_hostile_folder_executes_nothing_of_it(light: Workshop, hostile: Path) -> None:
    for flags in (["-c", "print(1)"], ["-m", "this"], ["-"]):
        done = run_python(*flags, env=light.environment(RELEASE), cwd=hostile)
        assert done.returncode == 0 and done.stderr == ""
    assert marks(hostile) == []


@pytest.mark.parametrize("flag", ["-P", "-I", "script"])
def test_where_python_keeps_the_folder_off_its_path_nothing_of_it_is_executed(
    light: Workshop, hostile: Path, tmp_path: Path, flag: str
) -> None:
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    path = [str(light.hook), str(light.trees[RELEASE])]
    start = f"import sys\nsys.path[:0] = {path!r}\nfrom gaudi_shadow.startup import install\ninstall()\n"
    script.write_text((start if flag == "-I" else "") + ASK, "utf-8")
    if flag == "-P" and run_python("-P", "-c", "").returncode:
        pytest.skip("needs Python 3.11, which brought -P")
    arguments = [script] if flag == "script" else [flag, "-c", script.read_text("utf-8")]
    answer = Answer(run_python(*arguments, env=light.environment(RELEASE), cwd=hostile))
    assert all(map(answer.is_patched, TARGETS)) and answer.lines == []
    assert marks(hostile) == []


def test_with_the_folder_on_pythons_path_our_own_parts_still_come_from_our_package(
    light: Workshop, hostile: Path
) -> None:
    """`python -c` puts the current folder first, and what Python then takes from it is Python's rule, not ours."""
    for name in ("packaging", "json", "tokenize", "hashlib", "ast", "threading"):
        (hostile / f"{name}.py").unlink()
        shutil.rmtree(hostile / name)
    answer = ask(light.environment(RELEASE), cwd=hostile)
    assert all(map(answer.is_patched, TARGETS)) and answer.lines == []
    assert all(file.startswith(str(light.hook)) for file in answer.files.values())
    assert marks(hostile) == []


def test_the_command_line_executes_nothing_of_a_hostile_folder(light: Workshop, hostile: Path) -> None:
    """As the console script starts it, whose folder holds no modules."""
    script = "import sys\nsys.path.pop(0)\nfrom gaudi_shadow.cli import main\nsys.exit(main())\n"
    for command in (["check"], ["status"], ["report"], ["diff"], ["releases"], ["path"]):
        done = run_python("-c", script, *command, env=light.environment(RELEASE), cwd=hostile)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert marks(hostile) == []


# --- the environment --------------------------------------------------------------------------------------------------

TEXTS = (
    "__import__('os').system('touch MARK')",
    "$(touch MARK)",
    "`touch MARK`; touch MARK",
    "${PATH}",
    "../../../../tmp",
    "%s%n%x{0.__class__}",
    "a\nb\r\x1b[2Jc\x07",
    "\udcff\u202e",
    "1" * 6000,
    "١٢",
    "0x10",
    " ",
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text_in_our_variables_is_never_executed(light: Workshop, tmp_path: Path, text: str) -> None:
    mark = tmp_path / "MARK"
    text = text.replace("MARK", str(mark))
    for name in ("VLLM_GAUDI_SHADOW", "VLLM_GAUDI_SHADOW_DISABLE", "VLLM_GAUDI_SHADOW_STRICT"):
        answer = ask(light.environment(RELEASE, **{name: text}))
        assert all(map(answer.is_patched, TARGETS))
        assert len(answer.lines) <= 1
        for line in answer.lines:
            assert line.startswith("gaudi-shadow: ") and line.isprintable() and name in line
    answer = ask(light.environment(RELEASE, VLLM_HPU_MM_ENCODER_MAX_PATCHES=text))
    if text.strip():
        assert "VLLM_HPU_MM_ENCODER_MAX_PATCHES=" in answer.imports[RUNNER]
        assert len(answer.imports[RUNNER].splitlines()) == 1 and len(answer.imports[RUNNER]) < 400
    assert not mark.exists()


def test_no_code_of_ours_evaluates_text_or_starts_a_shell() -> None:
    """Each place that compiles or executes is listed here with its reason; none of them reads the environment."""
    allowed = {
        ("execution.py", "exec"),  # the grafted code object
        ("catalog.py", "compile"),  # an overlay of ours
        ("match.py", "compile"),  # compiled to be compared, never executed
        ("maintaining/release_tree.py", "compile"),  # compiled to be read, never executed
        ("demo/workshop.py", "compile"),  # the stand-in, to read its functions
        ("demo/scenario.py", "exec"),
    }
    found = set()
    for path in PACKAGE.rglob("*.py"):
        inner = path.relative_to(PACKAGE).as_posix()
        if inner.startswith(("overlays/", "demo/release/")):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in ("eval", "exec", "compile", "__import__"):
                    found.add((inner, node.func.id))
            elif isinstance(node, ast.Name) and node.id in ("eval", "exec"):
                found.add((inner, node.id))
            elif isinstance(node, ast.Attribute) and node.attr in ("system", "popen", "getoutput"):
                found.add((inner, node.attr))
            elif isinstance(node, ast.keyword) and node.arg == "shell":
                found.add((inner, "shell"))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                found |= {
                    (inner, name) for name in names if name in ("pickle", "marshal", "shelve", "ctypes", "socket")
                }
    assert found <= allowed, found - allowed
    assert ("execution.py", "exec") in found


@pytest.mark.parametrize("users", [None, "", "/a", ":/a", "/a:", "/a::/b", ":"])
def test_no_empty_entry_is_added_to_pythonpath(light: Workshop, tmp_path: Path, users: str | None) -> None:
    """An empty entry would put the current folder on the path of every process below."""
    variables = {} if users is None else {"PYTHONPATH": users}
    command = [bare_python(), "-c", "import os; print(os.environ['PYTHONPATH'])"]
    script = f"import sys; sys.path.insert(0, {str(light.hook)!r}); from gaudi_shadow.cli import main; sys.exit(main())"
    done = run_python("-c", script, "run", "--", *command, env=clean_environment(**variables), cwd=tmp_path)
    entries = done.stdout.removesuffix("\n").split(os.pathsep)
    assert entries == [str(light.hook), *((users or "").split(os.pathsep) if users else [])], done.stderr


# --- what is opened, and from where -----------------------------------------------------------------------------------

WATCH = """
import json, sys
seen = []
def watch(event, arguments):
    if event == "open":
        seen.append([event, str(arguments[0]), arguments[2] if len(arguments) > 2 else 0])
    elif event.partition(".")[0] in ("socket", "subprocess", "shutil", "ctypes", "urllib", "tempfile") or (
        event.startswith("os.") and event not in ("os.listdir", "os.scandir", "os.add_dll_directory")):
        seen.append([event, str(arguments), 0])
sys.addaudithook(watch)
"""


def watched(light: Workshop, **variables: str) -> list[list]:
    script = WATCH + f"import {UTILS}, {RUNNER}\nprint(json.dumps(seen))"
    done = run_python("-c", script, env=light.environment(RELEASE, PYTHONDONTWRITEBYTECODE="1", **variables))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_files_are_opened_for_reading_only(light: Workshop) -> None:
    opened = [entry for entry in watched(light) if entry[0] == "open"]
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    assert len(opened) > 20 and [entry for entry in opened if entry[2] & writing] == []


def test_an_import_starts_no_process_opens_no_connection_and_changes_no_file(light: Workshop) -> None:
    assert [entry for entry in watched(light) if entry[0] != "open"] == []


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux, which has files in memory")
@pytest.mark.parametrize("command", ["check", "status", "report", "diff"])
def test_a_command_writes_to_no_file_that_has_a_name(light: Workshop, command: str) -> None:
    script = WATCH + f"from gaudi_shadow.cli import main\nmain([{command!r}])\nprint()\nprint(json.dumps(seen))"
    done = run_python("-c", script, env=light.environment(RELEASE, PYTHONDONTWRITEBYTECODE="1"))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    named = [path for event, path, flags in seen if event == "open" and flags & writing and not path.isdigit()]
    assert named in ([], [os.devnull])
    others = [entry for entry in seen if entry[0] not in ("open", "subprocess.Popen", "os.posix_spawn", "os.fork")]
    assert others == []


def test_overlays_come_from_our_package_only(light: Workshop, hostile: Path, tmp_path: Path) -> None:
    """Not from a folder before it on the path, nor from beside the tree, nor from where a name in a manifest points."""
    for place in (light.trees[RELEASE], tmp_path):
        shutil.copytree(hostile / "overlays", place / "overlays")
    entries = [light.hook, hostile / "gaudi_shadow", light.trees[RELEASE]]
    script = WATCH + f"import {UTILS}, {RUNNER}\nprint(json.dumps(seen))"
    environment = clean_environment(PYTHONPATH=os.pathsep.join(map(str, entries)), PYTHONDONTWRITEBYTECODE="1")
    done = run_python("-c", script, env=environment, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    read = [path for event, path, _ in json.loads(done.stdout) if event == "open" and "/overlays/" in path]
    ours = str(light.hook / "gaudi_shadow" / "overlays")
    assert len(read) >= 4 and all(os.path.realpath(path).startswith(ours + os.sep) for path in read)
    assert marks(hostile) == []


def test_in_a_checkout_the_overlays_are_behind_the_packages_own_link() -> None:
    link = PACKAGE / "overlays"
    if not link.is_symlink():
        pytest.skip("needs a checkout, in which gaudi_shadow/overlays is a symbolic link")
    assert os.readlink(link) == "../overlays"


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_whole_process_opens_no_file_for_writing(light: Workshop, tmp_path: Path) -> None:
    """Seen by the kernel, from the first instruction of the interpreter to the last."""
    log = tmp_path / "log"
    calls = (
        "open,openat,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,link,linkat,symlink,symlinkat,chmod"
    )
    command = ["strace", "-f", "-o", str(log), "-e", f"trace={calls}", str(bare_python()), "-c", ASK]
    environment = light.environment(RELEASE, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    if "ptrace" in done.stderr and done.returncode:
        pytest.skip("needs a system that lets strace trace")
    answer = Answer(done)
    assert all(map(answer.is_patched, TARGETS))
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if "+++" not in line and "---" not in line]
    assert any("hpu_model_runner.py" in line for line in lines)
    changing = [line for line in lines if re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", line) and "/dev/" not in line]
    changing += [line for line in lines if not re.search(r"\bopen(at)?\(", line) and "ENOENT" not in line]
    assert changing == []


# --- folders on the path that an attacker can write to ----------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.26.0", "9.9.9", "0.0.0", "not a version", "../../..", "$(touch x)"])
def test_metadata_of_another_folder_decides_nothing(light: Workshop, tmp_path: Path, version: str) -> None:
    """A forged version changes the order in which overlays are tried; the function's own text decides."""
    forged = tmp_path / "forged"
    info = forged / "vllm_gaudi-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm_gaudi\nVersion: {version}\n", "utf-8")
    (info / "direct_url.json").write_text('{"url": "file:///"}', "utf-8")
    shutil.rmtree(next(light.trees[RELEASE].glob("*.dist-info")))
    environment = light.environment(RELEASE)
    environment["PYTHONPATH"] += os.pathsep + str(forged)
    answer = ask(environment)
    assert all(map(answer.is_patched, TARGETS)) and answer.lines == []
    assert f"/overlays/{RELEASE}/" in answer.files[RUNNER]


def test_check_executes_nothing_of_the_tree_that_it_looks_at(light: Workshop, tmp_path: Path) -> None:
    tree, mark = light.trees[RELEASE], tmp_path / "mark"
    for path in tree.rglob("*.py"):
        path.write_text(path.read_text("utf-8") + f"\nopen({str(mark)!r}, 'w').close()\n", "utf-8")
    (tree / "vllm_gaudi" / "_version.py").write_text(f"open({str(mark)!r}, 'w').close()\n__version__ = '1'\n", "utf-8")
    for command in ("check", "status", "report", "diff"):
        done = run_python("-m", "gaudi_shadow", command, env=light.environment(RELEASE))
        assert done.returncode == 0, done.stderr
    assert not mark.exists()
    ask(light.environment(RELEASE))
    assert mark.exists(), "the mark is never left, so its absence says nothing"


def test_a_module_that_forges_our_marks_gets_nothing(light: Workshop) -> None:
    """A tree may claim what it likes in names, docstrings and comments; only the text of the function counts."""
    path = target_file(light, RUNNER)
    text = path.read_text("utf-8")
    path.write_text(
        text.replace("def _execute_mm_encoder", "# gaudi-shadow: known\n    def _execute_mm_encoder_"), "utf-8"
    )
    assert not ask(light.environment(RELEASE)).is_patched(RUNNER)


def test_names_of_files_cannot_command_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[2J\nb\x07"
    light = make_light(folder)
    path = target_file(light, UTILS)
    path.write_text(path.read_text("utf-8").replace("return inputs_embeds", "return (inputs_embeds)"), "utf-8")
    answer = ask(light.environment(RELEASE))
    assert not answer.is_patched(UTILS)
    [line] = answer.lines
    assert line.isprintable() and "\\x1b[2J" in line
    strict = ask(light.environment(RELEASE, VLLM_GAUDI_SHADOW_STRICT="1"))
    assert strict.imports[UTILS].isprintable()
    tree, nowhere = str(light.trees[RELEASE]), str(folder / "nowhere")
    for command in (
        ["check", "--root", tree],
        ["status", "--root", tree],
        ["verify", "--root", tree],
        ["check", "--root", nowhere],
        ["verify", "--root", nowhere],
        ["verify", "--root", tree, "--against", str(folder)],
        ["plan", "--model", nowhere, "--image", "4x4"],
        ["demo", "--root", nowhere],
        ["show", nowhere],
        ["check", "a\x1b[2J\nb"],
        ["check", "--a\x1b[2J\nb"],
        ["a\x1b[2J\nb"],
        ["run", "--", nowhere],
    ):
        done = gaudi_shadow(light.hook, *command, env=light.environment(RELEASE))
        lines = (done.stdout + done.stderr).split("\n")
        assert all(map(str.isprintable, lines)) and done.stderr.count("\n") <= 1, command
        assert any("\\x1b[2J\\nb" in line for line in lines), command


def test_the_pth_line_is_fixed_text() -> None:
    """It reads one variable and compares it; the environment gives it nothing to execute."""
    (line,) = (PACKAGE / "inject" / "gaudi_shadow.pth").read_text("utf-8").splitlines()
    assert line.startswith("import os, sys; ")
    tree = ast.parse(line)
    executed = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "exec"]
    assert [type(call.args[0]) for call in executed] == [ast.Constant]
    assert line.count("environ") == 1


# --- what a report gives away -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["applied", "drifted", "damaged"])
def test_a_report_names_no_folder_person_or_host(tmp_path: Path, state: str) -> None:
    """Whatever lies in folders whose names have spaces and umlauts, and whatever the environment holds."""
    home = tmp_path / "Anna B\xe4r" / "secret project"
    home.mkdir(parents=True)
    light = make_light(home)
    if state == "drifted":
        path = target_file(light, UTILS)
        path.write_text(path.read_text("utf-8").replace("return inputs_embeds", "return (inputs_embeds)"), "utf-8")
    elif state == "damaged":
        (light.hook / "gaudi_shadow" / "overlays" / RELEASE / "manifest.json").unlink()
    secrets = {
        "HOME": str(home),
        "USER": "annab",
        "LOGNAME": "annab",
        "HOSTNAME": "secret-host",
        "VLLM_API_KEY": "s3cret",
    }
    done = run_python("-m", "gaudi_shadow", "report", env=light.environment(RELEASE, **secrets), cwd=home)
    assert done.returncode == 0 and done.stderr == ""
    for word in ("Anna", "B\xe4r", "secret", "annab", "s3cret", str(tmp_path), os.uname().nodename):
        assert word not in done.stdout, done.stdout
    assert state == "damaged" or f"mm-merge-idxcopy: {state}" in done.stdout
    assert "sha256:" in done.stdout and "vllm-gaudi: 0.30.0" in done.stdout


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_names_a_test_for_each_claim_and_each_test_is_named() -> None:
    page = (CHECKOUT / "SECURITY.md").read_text("utf-8")
    here = {name for name in globals() if name.startswith("test_")} - {
        "test_the_page_names_a_test_for_each_claim_and_each_test_is_named"
    }
    assert set(re.findall(r"`(test_\w+)`", page)) == here
    rows = [line.split("|")[3].strip() for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    assert [row for row in rows[1:] if "`test_" not in row] == ["no claim"]
