"""Our plugin and our variables in the real vLLM: its plugin loader, its check of the environment, its Ray copying."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from activation.places import adopt_stand_in, make_venv, new_folder, path_of, run, run_any
from activation.shared import checkout, target_folder, wheel
from conftest import UTILS, clean_environment

from gaudi_shadow import vllm_environ
from gaudi_shadow.demo.standin import GROUPING_NAMES, RELEASE_FILES

VARIABLE = "GAUDI_SHADOW_VLLM"
PYTHONS = [entry for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
HOW = f"needs, in {VARIABLE}, Pythons that have vLLM 0.26.0 or 0.30.0, separated by {os.pathsep!r}"
pytestmark = pytest.mark.slow

VARIABLES = {
    "VLLM_GAUDI_SHADOW_DISABLE": "mm-encoder-budget",
    "VLLM_HPU_MM_ENCODER_MAX_PATCHES": "4096",
    "VLLM_LOGGING_LEVEL": "INFO",
}
LOAD = "from vllm.plugins import load_general_plugins\nload_general_plugins()\n"
VALIDATE = "import vllm.envs as envs\nenvs.validate_environ(hard_fail=True)\n"
PATCHED = f"import sys\nprint('overlays' in sys.modules[{UTILS!r}]._merge_multimodal_embeddings.__code__.co_filename)\n"
COPIED = "from vllm.ray.ray_env import get_env_vars_to_copy\nprint(*get_env_vars_to_copy())\n"
USES = """
factors = envs.compile_factors()
envs.enable_envs_cache()
print(factors["VLLM_HPU_MM_ENCODER_MAX_PATCHES"], envs.VLLM_HPU_MM_ENCODER_MAX_PATCHES, envs.VLLM_GAUDI_SHADOW)
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended; `last` is the last line on stdout."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def last(self) -> str:
        assert self.exit_code == 0, self.stderr
        return self.stdout.splitlines()[-1]


@dataclass(frozen=True)
class Place:
    """Two Pythons with one vLLM, without us and with our wheel, and a folder with a stand-in vllm_gaudi for it."""

    bare: Path
    piped: Path
    release: Path

    def start(self, python: Path, program: str, *entries: Path, **variables: str) -> Ended:
        env = clean_environment(PYTHONPATH=path_of(*entries, self.release), **{**VARIABLES, **variables})
        done = run_any(python, "-c", program, env=env, cwd=new_folder())
        return Ended(done.returncode, done.stdout, done.stderr)


def write_release(folder: Path) -> Path:
    """The stand-in vllm_gaudi alone, and the real one's entry point that imports a target."""
    for path in (RELEASE_FILES / "vllm_gaudi").rglob("*.py"):
        copy = folder / path.relative_to(RELEASE_FILES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text("utf-8").replace("GROUPING_NAME", GROUPING_NAMES["v0.30.0"]), "utf-8")
    with (folder / "vllm_gaudi" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\ndef register_models():\n    import {UTILS}\n")
    info = folder / "vllm_gaudi-0.30.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm_gaudi\nVersion: 0.30.0\n", "utf-8")
    points = "[vllm.general_plugins]\n03.hpu_custom_models = vllm_gaudi:register_models\n"
    (info / "entry_points.txt").write_text(points, "utf-8")
    return folder


@pytest.fixture(
    scope="module", params=PYTHONS or [None], ids=lambda path: Path(path).parent.parent.name if path else "none"
)
def place(request: pytest.FixtureRequest) -> Place:
    if request.param is None:
        pytest.skip(HOW)
    asked = "import json, sys; print(json.dumps([each for each in sys.path if each.endswith('-packages')]))"
    libraries = json.loads(run(request.param, "-c", asked).stdout)
    release, pythons = write_release(new_folder()), []
    for name in ("bare", "piped"):
        venv = make_venv(new_folder() / name, request.param)
        (venv.site_packages / "libraries.pth").write_text("\n".join(libraries) + "\n", "utf-8")
        pythons.append(venv.python)
    venv.pip("install", "--no-deps", "--ignore-installed", wheel())
    adopt_stand_in(venv.site_packages / "gaudi_shadow", release)
    return Place(*pythons, release)


def test_without_us_vllm_refuses_the_names(place: Place) -> None:
    ended = place.start(place.bare, LOAD + VALIDATE)
    assert ended.exit_code == 1 and "ValueError: Unknown vLLM environment variable detected: VLLM_" in ended.stderr


def test_the_plugin_alone_patches_logs_and_makes_the_names_known(place: Place) -> None:
    ended = place.start(place.bare, LOAD + VALIDATE + PATCHED, target_folder())
    assert ended.last == "True"
    (line,) = [line for line in (ended.stdout + ended.stderr).splitlines() if "hook by plugin" in line]
    assert "INFO" in line and "mm-encoder-budget disabled" in line and f"{UTILS} patched" in line


def test_pythonpath_alone_makes_the_names_known(place: Place) -> None:
    assert place.start(place.bare, LOAD + VALIDATE + PATCHED, checkout()).last == "True"


def test_with_vllm_plugins_set_to_others_the_pth_still_works(place: Place) -> None:
    ended = place.start(place.piped, LOAD + VALIDATE + PATCHED, VLLM_PLUGINS="03.hpu_custom_models,hpu")
    assert ended.last == "True" and "hook by" not in ended.stdout + ended.stderr


def test_strict_mode_stops_what_loads_the_plugins(place: Place) -> None:
    ended = place.start(place.bare, f"import {UTILS}\n" + LOAD, target_folder(), VLLM_GAUDI_SHADOW_STRICT="1")
    assert ended.exit_code == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: VLLM_GAUDI_SHADOW_STRICT is set, and gaudi-shadow")


def test_vllm_copies_our_variables_to_its_ray_workers(place: Place) -> None:
    assert set(vllm_environ.NAMES) <= set(place.start(place.piped, LOAD + COPIED).last.split())


def test_vllms_own_uses_of_the_table_go_on(place: Place) -> None:
    assert place.start(place.piped, LOAD + VALIDATE + USES).last == "4096 4096 None"
