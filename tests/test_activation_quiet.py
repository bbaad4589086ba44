"""Nothing is printed and next to nothing is loaded in a Python that does not import a target, ours or not."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from activation.interpreters import interpreters, supported
from activation.places import make_venv, new_folder, run, run_any, write_stack
from activation.shared import bare_venv, checkout, install_wheel, piped_venv, target_folder
from conftest import clean_environment

STARTUP_MODULES = {"gaudi_shadow", "gaudi_shadow.finder"}
MODULES = "import json, sys; print(json.dumps(sorted(sys.modules)))"
PROGRAMS = [
    ["-c", "print(1)"],
    ["-c", "import sys; sys.stderr.write('e'); sys.exit(3)"],
    ["-c", "raise SystemExit('no')"],
    ["-c", "import vllm_gaudi.models.utils"],
    ["-c", "import site, os; print(os.path.basename(site.__file__)[:4])"],
    ["-W", "error", "-c", "print(1)"],
    ["-S", "-c", "print(1)"],
    ["-E", "-c", "print(1)"],
    ["-m", "this_module_is_not_there"],
]


@functools.cache
def venvs_of(version: str) -> tuple[Path, Path]:
    """Two venvs of one Python, without us and with our wheel."""
    bare, piped = (make_venv(new_folder() / name, interpreters()[version]) for name in ("bare", "piped"))
    for venv in (bare, piped):
        write_stack(venv.site_packages)
        # Python 3.13 loads encodings.utf_8_sig for the first .pth of all, whoever's it is.
        (venv.site_packages / "anybody.pth").write_text("# nothing\n", "utf-8")
    install_wheel(piped)
    return bare.python, piped.python


def oldest_and_newest_first() -> list[object]:
    """The supported versions; those between the oldest and the newest are slow tests."""
    ordered = sorted(supported(), key=lambda version: tuple(map(int, version.split("."))))
    between = [pytest.param(version, marks=pytest.mark.slow) for version in ordered[1:-1]]
    return [*dict.fromkeys((ordered[0], ordered[-1])), *between]


def outcome(python: Path, args: Sequence[str], **variables: str) -> tuple[int, str, str]:
    env = clean_environment(PYTHONDONTWRITEBYTECODE="1", **variables)
    done = run_any(python, *args, env=env, cwd=new_folder())
    return done.returncode, done.stdout, done.stderr.replace(str(python), "python")


def loaded(python: Path, **variables: str) -> set[str]:
    return set(json.loads(run(python, "-c", MODULES, env=clean_environment(**variables)).stdout))


@pytest.mark.parametrize("version", interpreters())
@pytest.mark.parametrize(
    "route", [checkout, lambda: target_folder() / "gaudi_shadow" / "inject"], ids=["checkout", "inject"]
)
def test_any_python_with_our_pythonpath_behaves_as_without(version: str, route) -> None:
    python = interpreters()[version]
    for program in PROGRAMS:
        assert outcome(python, program, PYTHONPATH=str(route())) == outcome(python, program), program


@pytest.mark.parametrize("version", oldest_and_newest_first())
def test_an_installed_wheel_is_silent_and_adds_three_modules(version: str) -> None:
    bare, piped = venvs_of(version)
    for program in PROGRAMS:
        if "vllm_gaudi" not in program[1]:
            assert outcome(piped, program) == outcome(bare, program), program
    assert loaded(piped) - loaded(bare) == STARTUP_MODULES
    assert loaded(piped, VLLM_GAUDI_SHADOW="0") == loaded(bare)


@pytest.mark.parametrize("version", supported())
@pytest.mark.parametrize("route", ["checkout", "inject"])
def test_pythonpath_adds_three_modules_and_a_sitecustomize(version: str, route: str) -> None:
    python = interpreters()[version]
    folder = checkout() if route == "checkout" else target_folder() / "gaudi_shadow" / "inject"
    hidden = loaded(python) & {"sitecustomize"}
    assert loaded(python, PYTHONPATH=str(folder)) - loaded(python) == STARTUP_MODULES | ({"sitecustomize"} - hidden)
    assert (
        loaded(python, PYTHONPATH=str(folder), VLLM_GAUDI_SHADOW="off") - loaded(python) == {"sitecustomize"} - hidden
    )


def test_gaudi_shadow_run_adds_what_pythonpath_adds() -> None:
    env = clean_environment(PYTHONDONTWRITEBYTECODE="1")
    command = [bare_venv().python, "-m", "gaudi_shadow", "run", "--", bare_venv().python, "-c", MODULES]
    done = run(*command, env=env, cwd=checkout())
    assert done.stderr == ""
    assert set(json.loads(done.stdout)) - loaded(bare_venv().python) == {*STARTUP_MODULES, "sitecustomize"}


def test_the_pip_route_survives_closed_standard_streams() -> None:
    for python in (piped_venv().python, bare_venv().python):
        done = run("sh", "-c", f"{python} -c 'import sys; sys.exit(sys.stderr is None)' <&- >&- 2>&-; echo $?")
        assert done.stdout == "1\n"


def test_the_patched_target_itself_prints_nothing() -> None:
    program = "import vllm_gaudi.models.utils as u; print(u._merge_multimodal_embeddings.__code__.co_filename)"
    done = run(piped_venv().python, "-c", program)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1 and "overlays" in done.stdout
