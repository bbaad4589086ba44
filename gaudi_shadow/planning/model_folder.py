"""Reads from a local model folder how its images and videos are resized, and its vision tower.

Which file counts follows transformers 5.14: processor_config.json where it holds the processor's settings, then the
processor's own file; a video processor without one takes the image processor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gaudi_shadow.planning.families import FAMILIES, Family
from gaudi_shadow.planning.memory import Tower
from gaudi_shadow.planning.resize import RefusedError, ResizeRules
from gaudi_shadow.planning.settings_file import Section, read_section

NESTED = "processor_config.json"
IMAGE_FILE, VIDEO_FILE = "preprocessor_config.json", "video_preprocessor_config.json"

# What the processors' classes take where their files are silent: least and most pixels, and the patch size.
IMAGE_DEFAULTS = (3_136, 1_003_520, 14)
VIDEO_DEFAULTS = {False: (100_352, 602_112, 14), True: (131_072, 786_432, 16)}

VIDEO_COUNTS_FRAMES = {"Qwen2VLVideoProcessor": False, "Qwen3VLVideoProcessor": True}


@dataclass(frozen=True)
class Model:
    """What plan needs to know of a model.

    Attributes:
        family: its line of models.
        image: how images are resized.
        video: how videos are resized.
        tower: the vision tower; None when no estimate holds for it.
    """

    family: Family
    image: ResizeRules
    video: ResizeRules
    tower: Tower | None


def read_model(folder: Path) -> Model:
    """Read config.json and the processors' files.

    Raises:
        RefusedError: a file is missing, damaged, or of a model or processor that is not known here.
    """
    config = read_section(folder / "config.json")
    if config is None:
        raise RefusedError(f"{folder} holds no config.json: --model takes a local model folder")
    family = FAMILIES.get(str(config.values.get("model_type")))
    if family is None:
        raise RefusedError(
            f"{config.file}: model_type {config.values.get('model_type')!r} is not known here; known are "
            f"{', '.join(FAMILIES)}. For a model that resizes like one of them use --family and --patch-size"
        )
    image = _image_rules(_settings(folder, "image_processor", IMAGE_FILE))
    video = _video_rules(family, _settings(folder, "video_processor", VIDEO_FILE, IMAGE_FILE))
    vision = config.section("vision_config")
    for name, cut in (("patch_size", image.patch_size), ("spatial_merge_size", image.merge_size)):
        if (expected := vision.number(name, cut)) != cut:
            raise RefusedError(f"{config.file}: {name} is {expected}, but the image processor's file says {cut}")
    return Model(family, image, video, _tower(family, vision, image))


def _settings(folder: Path, nested: str, *files: str) -> Section:
    whole = read_section(folder / NESTED)
    if whole is not None and nested in whole.values:
        return whole.section(nested)
    found = next(filter(None, (read_section(folder / file) for file in files)), None)
    if found is None:
        raise RefusedError(f"{folder} holds neither {' nor '.join(files)}, nor a {nested} in {NESTED}")
    return found


def _image_rules(settings: Section) -> ResizeRules:
    kind = settings.values.get("image_processor_type", "Qwen2VLImageProcessor")
    if not str(kind).startswith("Qwen2VLImageProcessor"):
        raise RefusedError(f"{settings.file}: image_processor_type {kind!r} is not known here")
    return _rules(settings, *IMAGE_DEFAULTS, counts_frames=False)


def _video_rules(family: Family, settings: Section) -> ResizeRules:
    kind = settings.values.get("video_processor_type")
    if kind is not None and kind not in VIDEO_COUNTS_FRAMES:
        raise RefusedError(f"{settings.file}: video_processor_type {kind!r} is not known here")
    # Without a type, transformers looks for a video processor of the image processor's name.
    namesake = str(settings.values.get("image_processor_type")).replace("ImageProcessor", "VideoProcessor")
    counts_frames = VIDEO_COUNTS_FRAMES.get(kind or namesake, family.video_counts_frames)
    return _rules(settings, *VIDEO_DEFAULTS[counts_frames], counts_frames=counts_frames)


def _rules(settings: Section, least: int, most: int, patch_size: int, *, counts_frames: bool) -> ResizeRules:
    if settings.values.get("do_resize") is False:
        raise RefusedError(f"{settings.file}: do_resize is off; plan knows only processors that resize")
    if settings.values.get("size") is not None:
        size = settings.section("size")
        least, most = size.number("shortest_edge", 0), size.number("longest_edge", 0)
    if not counts_frames:  # Qwen3-VL's video processor does not know the older names
        least, most = settings.number("min_pixels", least), settings.number("max_pixels", most)
    if not (least and most):
        raise RefusedError(
            f"{settings.file}: size lacks shortest_edge or longest_edge, which the processor refuses too"
        )
    return ResizeRules(
        settings.number("patch_size", patch_size),
        settings.number("merge_size", 2),
        settings.number("temporal_patch_size", 2),
        least,
        most,
        counts_frames=counts_frames,
    )


def _tower(family: Family, vision: Section, image: ResizeRules) -> Tower | None:
    if family.tower is None:
        return None
    if family.tower == "qwen2_vl":
        hidden, output = vision.number("embed_dim", 1280), vision.number("hidden_size", 3584)
        intermediate = hidden * vision.number("mlp_ratio", 4)
    else:
        hidden, output = vision.number("hidden_size", 1152), vision.number("out_hidden_size", 3584)
        intermediate = vision.number("intermediate_size", 4304)
    layers = vision.numbers("deepstack_visual_indexes", family.deepstack_layers)
    last = vision.number("depth", 27) - 1
    return Tower(
        family.tower,
        hidden=hidden,
        intermediate=intermediate,
        heads=vision.number("num_heads", 16),
        output=output,
        deepstack=len(layers),
        deepstack_held=sum(layer < last for layer in layers),
        merged=image.merge_size**2,
        pixels=vision.number("in_channels", 3) * image.temporal_patch_size * image.patch_size**2,
    )
