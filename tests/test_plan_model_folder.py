"""Reading a model folder: what is taken from which file, and one clear line for each file that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plan_folders import (
    FOLDERS,
    QWEN2_CONFIG,
    QWEN2_IMAGE,
    QWEN3_CONFIG,
    QWEN3_IMAGE,
    QWEN3_SIZE,
    QWEN3_VIDEO,
    write_folder,
)

from gaudi_shadow.planning.families import FAMILIES
from gaudi_shadow.planning.memory import Tower
from gaudi_shadow.planning.model_folder import read_model
from gaudi_shadow.planning.resize import RefusedError

GOOD = FOLDERS["Qwen3-VL as published"]
QWEN3_RULES = (16, 2, 2, 65_536, 16_777_216, False)
QWEN3_VIDEO_RULES = (16, 2, 2, 4_096, 25_165_824, True)


def with_vision(**values: Any) -> dict[str, Any]:
    vision = {**QWEN3_CONFIG["vision_config"], **values}
    return {**GOOD, "config.json": {**QWEN3_CONFIG, "vision_config": vision}}


def rules(each: Any) -> tuple[Any, ...]:
    return tuple(vars(each).values())


@pytest.mark.parametrize("name", [name for name in FOLDERS if "Qwen3-VL" in name and "defaults" not in name])
def test_the_published_limits_of_qwen3_vl_are_read(name: str, tmp_path: Path) -> None:
    model = read_model(write_folder(tmp_path, FOLDERS[name]))
    if "older names" not in name:
        assert rules(model.image) == QWEN3_RULES
    if "without a video file" not in name:
        assert rules(model.video) == QWEN3_VIDEO_RULES
    assert model.tower == Tower("qwen3_vl", 1152, 4304, 16, 5120, deepstack=3, deepstack_held=3, merged=4, pixels=1536)


def test_qwen2_vl_takes_its_video_limits_from_the_images_file(tmp_path: Path) -> None:
    model = read_model(write_folder(tmp_path, FOLDERS["Qwen2-VL as published"]))
    assert rules(model.image) == rules(model.video) == (14, 2, 2, 3_136, 12_845_056, False)
    assert model.tower == Tower("qwen2_vl", 1280, 5120, 16, 3584, deepstack=0, deepstack_held=0, merged=4, pixels=1176)


def test_deepstack_of_the_last_layer_is_not_held_by_a_layer(tmp_path: Path) -> None:
    tower = read_model(write_folder(tmp_path, with_vision(depth=25))).tower
    assert tower is not None
    assert (tower.deepstack, tower.deepstack_held) == (3, 2)


def test_a_tower_that_vllm_gaudi_replaces_has_no_formula(tmp_path: Path) -> None:
    assert read_model(write_folder(tmp_path, FOLDERS["Qwen2.5-VL as published"])).tower is None


@pytest.mark.parametrize("family", FAMILIES)
def test_every_known_model_type_is_read(family: str, tmp_path: Path) -> None:
    files = {**GOOD, "config.json": {"model_type": family, "vision_config": {}}}
    assert read_model(write_folder(tmp_path, files)).family is FAMILIES[family]


def changed(file: str, **values: Any) -> dict[str, Any]:
    return {**GOOD, file: {**GOOD[file], **values}}


IMAGE, VIDEO = "preprocessor_config.json", "video_preprocessor_config.json"
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no config.json": ({IMAGE: QWEN3_IMAGE, VIDEO: QWEN3_VIDEO}, "holds no config.json"),
    "no processor file": ({"config.json": QWEN3_CONFIG}, f"holds neither {IMAGE}, nor a image_processor"),
    "another model": ({**GOOD, "config.json": {"model_type": "llava"}}, "'llava' is not known here"),
    "no model type": ({**GOOD, "config.json": {}}, "None is not known here"),
    "no tower": ({**GOOD, "config.json": {"model_type": "qwen3_vl"}}, "vision_config is not a JSON object"),
    "a list": ({**GOOD, "config.json": "[]"}, "config.json: the file is not a JSON object"),
    "half a file": ({**GOOD, IMAGE: '{"size": '}, f"{IMAGE} is not JSON"),
    "nested too deep": ({**GOOD, IMAGE: "[" * 100_000}, f"{IMAGE} is not JSON"),
    "a size of words": (changed(IMAGE, size="large"), f"{IMAGE}: size is not a JSON object"),
    "half a size": (changed(IMAGE, size={"shortest_edge": 4}), "lacks shortest_edge or longest_edge"),
    "a height": (changed(IMAGE, size={"height": 4, "width": 4}), "lacks shortest_edge or longest_edge"),
    "a fraction": (changed(IMAGE, size={**QWEN3_SIZE, "longest_edge": 1.5}), "longest_edge is 1.5"),
    "patches of nothing": (changed(IMAGE, patch_size=0), "patch_size is 0"),
    "patches of truth": (changed(IMAGE, patch_size=True), "patch_size is True"),
    "a size beyond measure": (changed(IMAGE, size={**QWEN3_SIZE, "longest_edge": 10**400}), "longest_edge is 1000"),
    "layers of words": (with_vision(deepstack_visual_indexes=["8"]), "not a list of whole numbers"),
    "layers in one number": (with_vision(deepstack_visual_indexes=8), "not a list of whole numbers"),
    "two patch sizes": (changed(IMAGE, patch_size=14), "patch_size is 16, but the image processor's file says 14"),
    "two merge sizes": (changed(IMAGE, merge_size=3), "spatial_merge_size is 2, but the image processor's file says 3"),
    "an unknown image processor": (changed(IMAGE, image_processor_type="CLIPImageProcessor"), "'CLIPImageProcessor'"),
    "an unknown video processor": (changed(VIDEO, video_processor_type="OtherVideoProcessor"), "'OtherVideoProcessor'"),
    "no resizing": (changed(VIDEO, do_resize=False), f"{VIDEO}: do_resize is off"),
    "a nested list": (
        {**GOOD, "processor_config.json": {"image_processor": []}},
        "image_processor is not a JSON object",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_folder_that_cannot_be_used_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    files, words = BROKEN[name]
    with pytest.raises(RefusedError) as caught:
        read_model(write_folder(tmp_path, files))
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, GOOD)
    (folder / IMAGE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RefusedError, match="cannot be read"):
        read_model(folder)
    (folder / IMAGE).unlink()
    (folder / IMAGE).mkdir()
    with pytest.raises(RefusedError, match="cannot be read"):
        read_model(folder)


def test_limits_by_their_older_names_count_more_than_size(tmp_path: Path) -> None:
    image = {**QWEN2_IMAGE, "size": {"shortest_edge": 9, "longest_edge": 99}}
    model = read_model(write_folder(tmp_path, {"config.json": QWEN2_CONFIG, IMAGE: image}))
    assert (model.image.min_pixels, model.image.max_pixels) == (3_136, 12_845_056)
