"""What is on disk after a hundred runs with and without us is what stock Python alone would have written."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from adversity.light import ASK, RELEASE, TARGETS, Answer, ask, target_file
from conftest import RUNNER, UTILS, Workshop, run_python

RUNS = 100
SWITCHES = (
    {},
    {"VLLM_GAUDI_SHADOW": "0"},
    {"VLLM_GAUDI_SHADOW_DISABLE": "mm-merge-idxcopy"},
    {"VLLM_GAUDI_SHADOW_STRICT": "1"},
    {"VLLM_HPU_MM_ENCODER_MAX_PATCHES": "4096"},
)


def contents(tree: Path) -> dict[str, str]:
    """Every file below a folder, `__pycache__` included: path -> its mode and the hash of its content."""
    return {
        str(path.relative_to(tree)): f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(tree.rglob("*"))
        if path.is_file()
    }


def everything(light: Workshop) -> dict[str, dict[str, str]]:
    """What must not differ: the tree that stands for site-packages, and our own package."""
    return {"site-packages": contents(light.trees[RELEASE]), "hook": contents(light.hook)}


def bytecode(light: Workshop, module: str) -> Path:
    return Path(importlib.util.cache_from_source(str(target_file(light, module))))


def test_a_hundred_runs_leave_what_stock_python_leaves(light: Workshop) -> None:
    """Stock fills the cache first; then nothing changes it, whatever our switches say."""
    run_python("-c", ASK, env=light.environment(RELEASE, hooked=False))
    run_python("-c", ASK, env=light.environment(RELEASE))  # our own modules' `.pyc` files
    before = everything(light)
    assert bytecode(light, RUNNER).exists() and len(before["site-packages"]) > 20

    def run(number: int) -> Answer:
        hooked = number % 4 != 0
        return Answer(
            run_python("-c", ASK, env=light.environment(RELEASE, hooked=hooked, **SWITCHES[number % len(SWITCHES)]))
        )

    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = list(pool.map(run, range(RUNS)))
    patched = sum("/overlays/" in answer.files[RUNNER] for answer in answers)
    assert 50 < patched < RUNS
    after = everything(light)
    changed = {name for part in before for name in before[part].keys() | after[part].keys()
               if before[part].get(name) != after[part].get(name)}  # fmt: skip
    print(f"{RUNS} runs, {patched} of them patched, {len(before['site-packages'])} files, {len(changed)} changed")
    assert changed == set()


def test_a_cold_cache_that_we_fill_is_the_one_that_stock_fills(light: Workshop, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(light.trees[RELEASE], twin, copy_function=shutil.copy2)
    ask(light.environment(RELEASE))
    ours = contents(light.trees[RELEASE])
    shutil.rmtree(light.trees[RELEASE])
    shutil.copytree(twin, light.trees[RELEASE], copy_function=shutil.copy2)
    run_python("-c", ASK, env=light.environment(RELEASE, hooked=False))
    assert ours == contents(light.trees[RELEASE])
    assert any("hpu_model_runner" in name and name.endswith(".pyc") for name in ours)


@pytest.mark.parametrize("first", [True, False], ids=["on, then off", "off, then on"])
def test_switching_the_hook_reverts_at_once(light: Workshop, first: bool) -> None:
    for hooked in (first, not first, first, not first):
        answer = ask(light.environment(RELEASE, hooked=hooked))
        assert ["/overlays/" in answer.files[module] for module in TARGETS] == [hooked] * 2
        off = ask(light.environment(RELEASE, hooked=hooked, VLLM_GAUDI_SHADOW="0"))
        assert not any("/overlays/" in off.files[module] for module in TARGETS)


def test_nothing_is_written_where_nothing_may_be(light: Workshop) -> None:
    environment = light.environment(RELEASE, PYTHONDONTWRITEBYTECODE="1")
    before = everything(light)
    for _ in range(3):
        assert all(map(ask(environment).is_patched, TARGETS))
    assert everything(light) == before
    assert not list(light.hook.parent.rglob("__pycache__"))


def test_a_refusal_writes_nothing_either(light: Workshop) -> None:
    path = target_file(light, UTILS)
    path.write_text(path.read_text("utf-8").replace("return inputs_embeds", "return (inputs_embeds)"), "utf-8")
    run_python("-c", ASK, env=light.environment(RELEASE, hooked=False))
    run_python("-c", ASK, env=light.environment(RELEASE))
    before = everything(light)
    for command in ("check", "status", "report"):
        run_python("-m", "gaudi_shadow", command, env=light.environment(RELEASE))
    assert not ask(light.environment(RELEASE)).is_patched(UTILS)
    after = everything(light)
    new = set(after["hook"]) - set(before["hook"])
    assert all("__pycache__" in name and "overlays" not in name for name in new), "the commands' own .pyc files"
    assert after["site-packages"] == before["site-packages"]


def test_the_folder_of_a_process_and_its_home_stay_empty(light: Workshop, tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "cwd")}
    for place in places.values():
        place.mkdir()
    variables = {name: str(place) for name, place in places.items() if name != "cwd"}
    assert all(map(ask(light.environment(RELEASE, **variables), cwd=places["cwd"]).is_patched, TARGETS))
    assert [os.listdir(place) for place in places.values()] == [[], [], [], []]
