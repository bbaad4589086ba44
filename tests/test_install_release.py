"""vllm-gaudi in every way that people install it: the copy that Python would import is patched."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from activation.places import RELEASE, Venv, change_function, path_of, run
from activation.shared import checkout, copy_of_piped
from conftest import RUNNER, UTILS, clean_environment

from gaudi_shadow.demo.standin import write_release

# The real project's build: setuptools, packages found at its root, no py.typed, no data.
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "vllm_gaudi"
version = "0.30.0"

[tool.setuptools.packages.find]
where = ["{where}"]
include = ["vllm_gaudi*"]
"""
ASK = f"""
import json, sys
import {UTILS} as utils, {RUNNER} as runner
import gaudi_shadow
print(json.dumps({{
    "code": [utils._merge_multimodal_embeddings.__code__.co_filename,
             runner.HPUModelRunner._execute_mm_encoder.__code__.co_filename],
    "file": utils.__file__, "stock": utils.sequence_parallel_chunk.__code__.co_filename,
    "finders": [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path],
    "release": gaudi_shadow.status()["release"]}}))
"""


def write_project(folder: Path, where: str = ".") -> Path:
    """The source tree of a vllm-gaudi: packages at its root or in src/."""
    complete = write_release(folder / "complete", RELEASE, metadata=False)
    packages = folder / "project" / where
    shutil.copytree(complete / "vllm_gaudi", packages / "vllm_gaudi")
    (folder / "project" / "pyproject.toml").write_text(PYPROJECT.format(where=where), "utf-8")
    return folder / "project"


def make_place(folder: Path) -> Venv:
    """A venv with our wheel, and all that the stand-in needs but vllm_gaudi itself."""
    venv = copy_of_piped(folder / "venv")
    shutil.rmtree(venv.site_packages / "vllm_gaudi")
    shutil.rmtree(next(venv.site_packages.glob("vllm_gaudi-*.dist-info")))
    return venv


def ask(venv: Venv, *entries: Path) -> dict[str, object]:
    variables = {"PYTHONPATH": path_of(*entries)} if entries else {}
    done = run(venv.python, "-c", ASK, env=clean_environment(PYTHONDONTWRITEBYTECODE="1", **variables))
    assert done.stderr == ""
    found: dict[str, object] = json.loads(done.stdout)
    assert all("overlays" in file for file in found["code"]), found
    assert found["stock"] == found["file"]
    return found


def install(venv: Venv, *args: str | Path) -> None:
    """With the test environment's setuptools, so that no package index is asked."""
    import setuptools

    backend = Path(setuptools.__file__).parent.parent
    venv.pip("install", "--no-deps", "--no-build-isolation", *args, PYTHONPATH=str(backend))


def test_a_wheel(tmp_path: Path) -> None:
    venv = make_place(tmp_path)
    install(venv, write_project(tmp_path))
    found = ask(venv)
    assert found["file"] == str(venv.site_packages / "vllm_gaudi" / "models" / "utils.py")
    assert found["release"] == "0.30.0"


def unpack(venv: Venv, project: Path) -> None:
    """Put the packages where a wheel would."""
    shutil.copytree(project / "vllm_gaudi", venv.site_packages / "vllm_gaudi")


def check_editable(folder: Path, where: str, mode: str) -> dict[str, object]:
    venv, project = make_place(folder), write_project(folder, where)
    settings = ["--config-settings", f"editable_mode={mode}"] if mode else []
    install(venv, *settings, "-e", project)
    found = ask(venv)
    by_finder = any("Editable" in name for name in found["finders"])
    assert by_finder is ((where, mode) == (".", "")), found
    if mode != "strict":
        assert found["file"] == str(project / where / "vllm_gaudi" / "models" / "utils.py")
    return found


def test_pip_install_editable_by_a_finder(tmp_path: Path) -> None:
    assert check_editable(tmp_path, ".", "")["release"] == "0.30.0"


@pytest.mark.slow
@pytest.mark.parametrize(("where", "mode"), [("src", ""), ("src", "compat"), (".", "compat"), (".", "strict")])
def test_pip_install_editable_by_a_path(tmp_path: Path, where: str, mode: str) -> None:
    found = check_editable(tmp_path, where, mode)
    # In strict mode the files are links in a folder of their own, and nothing beside them names the version.
    assert found["release"] == ("unknown" if mode == "strict" else "0.30.0")


def test_a_source_tree_on_pythonpath(tmp_path: Path) -> None:
    venv, project = make_place(tmp_path), write_project(tmp_path)
    found = ask(venv, project)
    assert found["file"] == str(project / "vllm_gaudi" / "models" / "utils.py")


def test_a_zip_file(tmp_path: Path) -> None:
    venv, project = make_place(tmp_path), write_project(tmp_path)
    archive = tmp_path / "release.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (project / "vllm_gaudi").rglob("*.py"):
            file.write(path, path.relative_to(project))
    assert ask(venv, archive)["file"] == str(archive / "vllm_gaudi" / "models" / "utils.py")


def test_of_two_copies_the_one_that_python_imports_is_judged_and_patched(tmp_path: Path) -> None:
    venv = make_place(tmp_path)
    unpack(venv, write_project(tmp_path))
    other = write_project(tmp_path / "other")
    assert ask(venv, other)["file"] == str(other / "vllm_gaudi" / "models" / "utils.py")
    changed = other / "vllm_gaudi" / "models" / "utils.py"
    change_function(changed, "_merge_multimodal_embeddings")
    program = f"import {UTILS} as u; print(u._merge_multimodal_embeddings.__code__.co_filename)"
    drifted = run(venv.python, "-c", program, env=clean_environment(PYTHONPATH=str(other)))
    assert drifted.stdout.strip() == str(changed) and f"{changed}) stays stock" in drifted.stderr
    assert ask(venv)["file"] == str(venv.site_packages / "vllm_gaudi" / "models" / "utils.py")


def test_a_folder_that_an_uninstall_left_behind_does_not_count(tmp_path: Path) -> None:
    venv = make_place(tmp_path)
    unpack(venv, write_project(tmp_path))
    left = tmp_path / "left"
    (left / "vllm_gaudi" / "models" / "__pycache__").mkdir(parents=True)
    assert ask(venv, left)["file"] == str(venv.site_packages / "vllm_gaudi" / "models" / "utils.py")


def test_a_namespace_package_made_of_two_folders(tmp_path: Path) -> None:
    """vllm_gaudi without any __init__.py, its two subpackages on two sys.path entries."""
    venv, project = make_place(tmp_path), write_project(tmp_path)
    for path in (project / "vllm_gaudi").rglob("__init__.py"):
        path.unlink()
    second = tmp_path / "second"
    (second / "vllm_gaudi").mkdir(parents=True)
    (project / "vllm_gaudi" / "v1").rename(second / "vllm_gaudi" / "v1")
    assert ask(venv, project, second)["file"] == str(project / "vllm_gaudi" / "models" / "utils.py")


def test_an_egg_link_of_an_old_setuptools_is_a_path(tmp_path: Path) -> None:
    """`setup.py develop` leaves easy-install.pth, which names the source tree."""
    venv, project = make_place(tmp_path), write_project(tmp_path)
    (venv.site_packages / "easy-install.pth").write_text(f"{project}\n", "utf-8")
    assert ask(venv)["file"] == str(project / "vllm_gaudi" / "models" / "utils.py")


def test_an_editable_install_on_the_pythonpath_route(tmp_path: Path) -> None:
    venv, project = make_place(tmp_path), write_project(tmp_path)
    install(venv, "-e", project)
    venv.pip("uninstall", "-y", "gaudi-shadow")
    assert any("Editable" in name for name in ask(venv, checkout())["finders"])
