"""`plan` against the real Qwen2-VL and Qwen3-VL processors of transformers: the grid of every size must be the same.

The real processors run whole; their pixels live on torch's meta device, so that large sizes cost no memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_folders import FOLDERS, write_folder

from gaudi_shadow.planning.families import FAMILIES, published_rules
from gaudi_shadow.planning.model_folder import read_model
from gaudi_shadow.planning.resize import RefusedError, ResizeRules, grid_of

REASON = "needs transformers, torch and torchvision: their processors are what plan is compared with"
transformers = pytest.importorskip("transformers", reason=REASON)
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("torchvision", reason=REASON)

Answer = tuple[int, ...] | str
Size = tuple[int, int, int]

SIDES = (
    1,
    2,
    3,
    13,
    14,
    15,
    16,
    17,
    27,
    28,
    29,
    31,
    32,
    33,
    42,
    48,
    63,
    64,
    65,
    199,
    200,
    201,
    255,
    256,
    257,
    333,
    720,
)
SIDES += (1079, 1280, 2160, 3583, 3584, 3585, 4095, 4096, 4097, 4112, 12_800, 20_011)
VIDEO_SIDES = (1, 27, 31, 32, 33, 64, 65, 181, 360, 720, 1280, 1920, 6400)
FRAMES = (1, 2, 3, 4, 5, 15, 33, 64, 127, 768)
LIMITS = {
    "published": None,
    "tight": (50_176, 50_176),
    "low": (1, 100_000),
    "high": (1_000_000, 40_000_000),
}
SETTINGS = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rules_for(family: str, modality: str, limits: tuple[int, int] | None) -> ResizeRules:
    sizes = {"patch_size": FAMILIES[family].patch_size, "merge_size": 2, "temporal_patch_size": 2}
    images, videos = published_rules(FAMILIES[family], **sizes)
    rules = images if modality == "image" else videos
    least, most = limits or (rules.min_pixels, rules.max_pixels)
    return ResizeRules(rules.patch_size, 2, 2, least, most, rules.counts_frames)


def real_processor(rules: ResizeRules, modality: str) -> Any:
    if modality == "image":
        kind = transformers.Qwen2VLImageProcessor
    elif rules.counts_frames:
        kind = transformers.Qwen3VLVideoProcessor
    else:
        kind = transformers.Qwen2VLVideoProcessor
    size = {"shortest_edge": rules.min_pixels, "longest_edge": rules.max_pixels}
    cut = {"patch_size": rules.patch_size, "merge_size": rules.merge_size}
    return kind(size=size, temporal_patch_size=rules.temporal_patch_size, **cut)


def real_answer(processor: Any, modality: str, size: Size) -> Answer:
    width, height, frames = size
    shape = (3, height, width) if modality == "image" else (frames, 3, height, width)
    pixels = torch.empty(shape, dtype=torch.uint8, device="meta")
    options = {"input_data_format": "channels_first", "return_tensors": "pt"}
    try:
        if modality == "image":
            out = processor(images=[pixels], **options)
        else:
            out = processor(videos=[pixels], do_sample_frames=False, **options)
    except ValueError as error:
        assert "aspect ratio" in str(error) or "larger than factor" in str(error), error
        return "refused"
    (grid,) = out[f"{modality}_grid_thw"].tolist()
    values = out["pixel_values" if modality == "image" else "pixel_values_videos"]
    assert values.shape[0] == grid[0] * grid[1] * grid[2], "the grid is what enters the tower"
    return tuple(grid)


def our_answer(rules: ResizeRules, size: Size) -> Answer:
    try:
        grid = grid_of(*size, rules)
    except RefusedError:
        return "refused"
    return (grid.t, grid.h, grid.w)


def compare(rules: ResizeRules, processor: Any, modality: str, sizes: Iterable[Size]) -> int:
    answers = [(size, our_answer(rules, size), real_answer(processor, modality, size)) for size in sizes]
    wrong = [each for each in answers if each[1] != each[2]]
    assert not wrong, f"{len(wrong)} of {len(answers)} sizes differ, such as {wrong[:3]}"
    refused = sum(each[1] == "refused" for each in answers)
    print(f"{modality} {rules}: {len(answers)} sizes alike, {refused} of them refused by both")
    return len(answers)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_images_on_a_grid_of_sizes(family: str, limits: str) -> None:
    rules = rules_for(family, "image", LIMITS[limits])
    sizes = [(width, height, 1) for width, height in itertools.product(SIDES, SIDES)]
    assert compare(rules, real_processor(rules, "image"), "image", sizes) == len(SIDES) ** 2


@pytest.mark.parametrize("limits", ["published", "low"])
@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_videos_on_a_grid_of_sizes_and_frames(family: str, limits: str) -> None:
    rules = rules_for(family, "video", LIMITS[limits])
    sizes = list(itertools.product(VIDEO_SIDES, VIDEO_SIDES, FRAMES))
    assert compare(rules, real_processor(rules, "video"), "video", sizes) == len(VIDEO_SIDES) ** 2 * len(FRAMES)


@st.composite
def any_rules(draw: Callable[..., Any], modality: str) -> ResizeRules:
    least = draw(st.integers(1, 2_000_000))
    most = draw(st.integers(least, 40_000_000))
    counts_frames = modality == "video" and draw(st.booleans())
    numbers = (draw(st.sampled_from([8, 14, 16])), draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2, 3])))
    return ResizeRules(*numbers, least, most, counts_frames)


def side(most: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(1, 300), st.integers(1, most))


@SETTINGS
@given(rules=any_rules("image"), width=side(20_000), height=side(20_000))
def test_images_of_any_size_and_limits(rules: ResizeRules, width: int, height: int) -> None:
    size = (width, height, 1)
    assert our_answer(rules, size) == real_answer(real_processor(rules, "image"), "image", size)


@SETTINGS
@given(rules=any_rules("video"), width=side(6_000), height=side(6_000), frames=st.integers(1, 800))
def test_videos_of_any_size_frames_and_limits(rules: ResizeRules, width: int, height: int, frames: int) -> None:
    size = (width, height, frames)
    assert our_answer(rules, size) == real_answer(real_processor(rules, "video"), "video", size)


def test_the_processor_without_torch_gives_the_same_grids() -> None:
    rules = rules_for("qwen3_vl", "image", None)
    processor = transformers.Qwen2VLImageProcessorPil(
        patch_size=16, size={"shortest_edge": rules.min_pixels, "longest_edge": rules.max_pixels}
    )
    sizes = [(width, height, 1) for width, height in itertools.product((32, 100, 257, 640, 1001, 2048), repeat=2)]
    for width, height, _ in sizes:
        pixels = torch.zeros(3, height, width, dtype=torch.uint8).numpy()
        grid = processor(images=[pixels], input_data_format="channels_first")["image_grid_thw"][0]
        assert tuple(int(each) for each in grid) == our_answer(rules, (width, height, 1))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_folder_is_read_as_transformers_reads_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (transformers.Qwen2VLImageProcessor, transformers.Qwen2VLVideoProcessor):
        # min_pixels of one folder are written into the class and would be the next folder's default.
        monkeypatch.setattr(kind, "size", dict(kind.size))
    model = read_model(write_folder(tmp_path, FOLDERS[name]))
    image = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    video = transformers.AutoVideoProcessor.from_pretrained(tmp_path)
    sizes = [(width, height) for width, height in itertools.product((20, 64, 300, 1280, 5000), repeat=2)]
    assert compare(model.image, image, "image", [(*size, 1) for size in sizes])
    assert compare(model.video, video, "video", [(*size, frames) for size in sizes for frames in (1, 7, 64)])
    config = transformers.AutoConfig.from_pretrained(tmp_path).vision_config
    if model.tower is not None:
        widths = (model.tower.hidden, model.tower.heads, model.tower.deepstack)
        layers = getattr(config, "deepstack_visual_indexes", ())
        assert widths == (getattr(config, "embed_dim", config.hidden_size), config.num_heads, len(layers))
        assert model.tower.output == getattr(config, "out_hidden_size", config.hidden_size)


@pytest.mark.parametrize("size", [{"min_pixels": 3_136, "max_pixels": 501_760}, {"shortest_edge": 3_136}, {}])
def test_a_size_that_the_processor_refuses_is_refused(size: dict[str, int], tmp_path: Path) -> None:
    files = {**FOLDERS["Qwen2-VL as published"], "preprocessor_config.json": {"patch_size": 14, "size": size}}
    folder = write_folder(tmp_path, files)
    with pytest.raises(ValueError, match="longest_edge"):
        transformers.AutoImageProcessor.from_pretrained(folder)
    with pytest.raises(RefusedError, match="longest_edge"):
        read_model(folder)
