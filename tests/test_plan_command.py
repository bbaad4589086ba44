"""`gaudi-shadow plan` from outside: the seed's example, what it advises, its JSON and picture, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import gaudi_shadow
from conftest import Workshop, clean_environment
from plan_folders import FOLDERS, QWEN3_CONFIG, QWEN3_IMAGE, write_folder

SEED = ("--image", "4096x4096x7")
QWEN3 = ("--patch-size", "16", "--merge-size", "2")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def plan(workshop: Workshop) -> Any:
    def run(*args: str | Path) -> tuple[int, str, str]:
        done = gaudi_shadow(workshop.hook, "plan", *args, env=clean_environment())
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def plan_json(plan: Any) -> Any:
    def run(*args: str | Path) -> dict[str, Any]:
        code, out, err = plan(*args, "--json")
        assert (code, err) == (0, "")
        told: dict[str, Any] = json.loads(out)
        return told

    return run


@pytest.fixture
def qwen3(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "model", FOLDERS["Qwen3-VL as published"])


def test_the_seeds_example(plan_json: Any) -> None:
    told = plan_json(*QWEN3, *SEED, "--budget", "65536")
    assert (
        told["items"][0] | {"count": 7, "patches": 65_536, "tokens": 16_384, "grid": [1, 256, 256]} == told["items"][0]
    )
    assert (told["patches"], told["tokens"]) == (458_752, 114_688)
    assert told["calls"] == [{"count": 7, "each": {"patches": 65_536, "items": ["image 4096x4096"]}}]
    assert told["advice"]["budget"] == 65_536
    assert told["advice"]["warm_up"] == "VLLM_MULTIMODAL_RESOLUTIONS=4096x4096x1"
    rows = {row["budget"]: (row["calls"], row["largest_call_patches"]) for row in told["budgets"]}
    assert rows == {0: (1, 458_752), 262_144: (2, 262_144), 131_072: (4, 131_072), 65_536: (7, 65_536)}


def test_the_table_tells_the_same(plan: Any) -> None:
    code, out, err = plan(*QWEN3, *SEED, "--budget", "65536")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "image 4096x4096 7 1x256x256 65,536 16,384",
        "all 7 458,752 114,688",
        "unset 1 458,752",
        "65536 7 65,536",
        "7 x 65,536 patches: 1 image 4096x4096",
    ):
        assert line in lines
    assert "export VLLM_HPU_MM_ENCODER_MAX_PATCHES=65536" in lines
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_budget_below_the_largest_item_does_not_help_it(plan_json: Any) -> None:
    told = plan_json(*QWEN3, "--image", "4096x4096", "--image", "1024x1024x3", "--budget", "5000")
    (row,) = [row for row in told["budgets"] if row["budget"] == 5000]
    assert (row["calls"], row["largest_call_patches"]) == (4, 65_536)
    assert told["advice"]["budget"] == 65_536
    assert any("5,000" in line and "65,536" in line for line in told["advice"]["lines"])


def test_items_keep_their_order_and_a_call_holds_one_modality(plan_json: Any) -> None:
    told = plan_json(*QWEN3, "--image", "512x512", "--video", "640x480@9", "--image", "512x512x2", "--budget", "99999")
    assert [call["each"]["items"] for call in told["calls"]] == [
        ["image 512x512"],
        ["video 640x480@9"],
        ["image 512x512"] * 2,
    ]
    assert [item["modality"] for item in told["items"]] == ["image", "video", "image"]
    assert told["items"][1]["grid"] == [5, 30, 40]


def test_warm_up_is_advised_with_the_counts_that_the_budget_lets_through(plan_json: Any) -> None:
    told = plan_json(
        *QWEN3, "--image", "1024x1024x5", "--image", "4096x4096", "--video", "640x480@8", "--budget", "65536"
    )
    assert told["advice"]["warm_up"] == "VLLM_MULTIMODAL_RESOLUTIONS=1024x1024x1-5,4096x4096x1"
    assert plan_json(*QWEN3, "--video", "640x480@8")["advice"]["warm_up"] == ""
    apart = ("--image", "1024x1024x2", "--image", "1024x1024x3", "--image", "4096x4096")
    assert plan_json(*QWEN3, *apart)["advice"]["warm_up"] == told["advice"]["warm_up"]


def test_the_largest_image_of_the_model_is_named_and_one_budget_is_to_be_set(plan: Any, plan_json: Any) -> None:
    told = plan_json(*QWEN3, "--image", "512x512")
    assert told["advice"]["budget"] == 1_024
    assert told["advice"]["set"] == "VLLM_HPU_MM_ENCODER_MAX_PATCHES=1024"
    assert any(": 65536 in its place" in line for line in told["advice"]["lines"])
    assert plan(*QWEN3, "--image", "512x512")[1].count("VLLM_HPU_MM_ENCODER_MAX_PATCHES") == 1


def test_the_help_gives_the_defaults_of_how_it_runs(plan: Any) -> None:
    text = " ".join(plan("--help")[1].split())
    for words in ("float32 (default: bfloat16)", "share the tower (default: 1)", "keeps scores (default: fused)"):
        assert words in text


def test_a_model_folder_gives_an_estimate_and_its_formula(plan: Any, plan_json: Any, qwen3: Path) -> None:
    told = plan_json("--model", qwen3, *SEED)
    # 1,536 of pixels, and 12 x 1,152 + 1,152 / 16 + 3 x 5,120 / 4 in the attention, of 2 bytes each
    assert told["budgets"][-1]["largest_call_bytes"] == 65_536 * 2 * (1_536 + 13_824 + 72 + 3_840)
    left = 6 * 65_536 * 2 * 4 * 5_120 // 4
    assert told["budgets"][-1]["results_at_peak_bytes"] == left
    assert told["budgets"][-1]["peak_bytes"] == left + told["budgets"][-1]["largest_call_bytes"]
    assert told["budgets"][0]["peak_bytes"] == 7 * told["budgets"][-1]["largest_call_bytes"]
    _, out, _ = plan("--model", qwen3, *SEED)
    assert "unproven on an HPU" in out
    assert "patches x 2 bytes x (1,536 of pixels + the largest of: attention 17,736, " in out
    assert "38,544 bytes" in out


def test_many_small_images_get_a_larger_budget_that_costs_little(plan_json: Any, qwen3: Path) -> None:
    told = plan_json("--model", qwen3, "--image", "400x300x300")
    rows = {row["budget"]: row for row in told["budgets"]}
    (line,) = [line for line in told["advice"]["lines"] if " peaks " in line]
    better = rows[int(line.split()[3])]
    lowest = rows[told["advice"]["budget"]]
    assert better["calls"] < lowest["calls"] == 300
    assert better["peak_bytes"] <= 1.05 * lowest["peak_bytes"]
    assert rows[2 * better["budget"]]["peak_bytes"] > 1.05 * lowest["peak_bytes"]
    assert not [line for line in plan_json("--model", qwen3, *SEED)["advice"]["lines"] if " peaks " in line]


def test_how_the_tower_is_run_changes_the_estimate(plan_json: Any, qwen3: Path) -> None:
    def bytes_of(*args: str) -> int:
        found: int = plan_json("--model", qwen3, "--image", "4096x4096", *args)["budgets"][0]["peak_bytes"]
        return found

    plain = bytes_of()
    assert bytes_of("--dtype", "float32") == 2 * plain
    assert bytes_of("--tensor-parallel", "2") < plain
    assert bytes_of("--attention", "math") == plain + 9 * 16 * 65_536**2


def test_without_a_folder_there_is_no_estimate(plan: Any, plan_json: Any, tmp_path: Path) -> None:
    assert plan_json(*QWEN3, *SEED)["estimate"] is None
    assert "no estimate of memory: it needs --model" in plan(*QWEN3, *SEED)[1]
    picture = tmp_path / "peak.svg"
    code, out, err = plan(*QWEN3, *SEED, "--plot", picture)
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert "--plot" in err
    assert not picture.exists()


def test_a_tower_of_vllm_gaudis_own_has_no_estimate(plan: Any, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, FOLDERS["Qwen2.5-VL as published"])
    code, out, _ = plan("--model", folder, *SEED)
    assert code == 0
    assert "one by one" in out
    assert "--min-pixels 12544" in out


def test_limits_can_be_overridden(plan_json: Any, qwen3: Path) -> None:
    for model in (("--model", qwen3), QWEN3):
        told = plan_json(*model, "--image", "4096x4096", "--max-pixels", "1048576")
        assert told["patches"] == 4_096
        told = plan_json(*model, "--video", "640x480@8", "--video-min-pixels", "9000000")
        assert told["patches"] > 8 * 640 * 480 // 2 // 256


def test_the_picture_shows_a_bar_for_each_budget(plan: Any, plan_json: Any, qwen3: Path, tmp_path: Path) -> None:
    picture = tmp_path / "peak.svg"
    assert plan("--model", qwen3, *SEED, "--plot", picture)[0] == 0
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    words = [element.text or "" for element in root.iter(SVG + "text")]
    rows = plan_json("--model", qwen3, *SEED)["budgets"]
    for label in ("unset", "262144", "131072", "65536", "7 calls", "1 call"):
        assert label in words
    assert any("7 images of 4096x4096" in line for line in words)
    assert any("unproven on an HPU" in line for line in words)
    bars = [float(each.get("height", "0")) for each in root.iter(SVG + "rect") if each.get("width") == "64"]
    tops = [call + results for call, results in zip(bars[::2], bars[1::2], strict=True)]
    scale = tops[0] / rows[0]["peak_bytes"]
    assert tops == pytest.approx([row["peak_bytes"] * scale for row in rows], abs=0.2)
    assert bars[1::2] == pytest.approx([row["results_at_peak_bytes"] * scale for row in rows], abs=0.2)


WRONG = {
    "nothing to plan": (QWEN3, "from 1 to 10,000"),
    "too many items": ((*QWEN3, "--image", "10x10x10001"), "from 1 to 10,000"),
    "which model": (("--image", "10x10"), "--model"),
    "an unknown patch size": (("--patch-size", "32", "--image", "10x10"), "--family"),
    "an aspect ratio over 200": ((*QWEN3, "--image", "2011x10"), "2011x10: the processor refuses"),
    "a small video": ((*QWEN3, "--video", "31x400@8"), "31x400@8: this model's video processor refuses"),
    "limits that exclude each other": ((*QWEN3, "--image", "9x9", "--max-pixels", "9"), "cannot both be"),
    "no folder": (("--model", "nowhere", "--image", "10x10"), "nowhere holds no config.json"),
    "folder and flags": (("--model", "nowhere", "--patch-size", "16", "--image", "10x10"), "leave those options out"),
    "an image without height": ((*QWEN3, "--image", "4096"), "an image is written"),
    "an image of nothing": ((*QWEN3, "--image", "0x10"), "an image is written"),
    "no images": ((*QWEN3, "--image", "10x10x0"), "an image is written"),
    "a video without frames": ((*QWEN3, "--video", "10x10"), "a video is written"),
    "a negative size": ((*QWEN3, "--image=-4x4"), "an image is written"),
    "a size beyond measure": ((*QWEN3, "--image", f"{10**9}x10"), "an image is written"),
    "budget 0": ((*QWEN3, *SEED, "--budget", "0"), "'0' is not a whole number above 0"),
    "budget of words": ((*QWEN3, *SEED, "--budget", "4e3"), "'4e3' is not a whole number above 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_planned_gives_one_clear_line(name: str, plan: Any) -> None:
    args, words = WRONG[name]
    code, out, err = plan(*args)
    assert (code, out) == (64, "")
    (line,) = [line for line in err.splitlines() if line.startswith("gaudi-shadow plan: ")]
    assert words in line
    assert "Traceback" not in err


def test_a_picture_that_cannot_be_written_is_told(plan: Any, qwen3: Path, tmp_path: Path) -> None:
    code, out, err = plan("--model", qwen3, *SEED, "--plot", tmp_path / "no" / "such" / "peak.svg")
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert "peak.svg cannot be written" in err


def test_what_the_folder_lacks_is_told_with_the_file(plan: Any, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"config.json": QWEN3_CONFIG, "preprocessor_config.json": "{"})
    code, _, err = plan("--model", folder, *SEED)
    assert (code, err.count("\n")) == (64, 1)
    assert f"{folder / 'preprocessor_config.json'} is not JSON" in err
    write_folder(folder, {"preprocessor_config.json": QWEN3_IMAGE})
    assert plan("--model", folder, *SEED)[0] == 0
