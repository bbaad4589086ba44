"""`gaudi-shadow plan`: which budget to set, from the sizes of a request's images and videos."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gaudi_shadow.commands import UsageError
from gaudi_shadow.planning.families import FAMILIES, FAMILY_BY_PATCH_SIZE, published_rules
from gaudi_shadow.planning.items import Asked, items_of, parse_image, parse_video
from gaudi_shadow.planning.memory import DTYPE_BYTES, Setting
from gaudi_shadow.planning.model_folder import Model, read_model
from gaudi_shadow.planning.picture import as_svg
from gaudi_shadow.planning.report import plan_of
from gaudi_shadow.planning.resize import RefusedError, ResizeRules
from gaudi_shadow.planning.table import as_text

HELP = "tell which budget to set: patches, tokens, encoder calls and memory of the images and videos you name"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the items, how the tower is run, and how to show the plan."""
    model = parser.add_argument_group("the model: a folder, or what it would say")
    model.add_argument("--model", type=Path, metavar="DIR", help="a local folder with config.json and processor files")
    names = ", ".join(FAMILIES)
    model.add_argument(
        "--family", choices=FAMILIES, metavar="NAME", help=f"resize as these models do, with published limits: {names}"
    )
    model.add_argument("--patch-size", type=_count, metavar="N", help="pixels; 14 and 16 tell the family by themselves")
    model.add_argument("--merge-size", type=_count, metavar="N", help="patches per side of one token (default: 2)")
    model.add_argument("--temporal-patch-size", type=_count, metavar="N", help="frames in one patch (default: 2)")
    for modality in ("image", "video"):
        prefix = "" if modality == "image" else "video-"
        for least in ("min", "max"):
            words = f"{'least' if least == 'min' else 'most'} pixels of {modality}s, where you override the model's"
            model.add_argument(f"--{prefix}{least}-pixels", type=_count, metavar="N", help=words)
    items = parser.add_argument_group("the request, in its order; at least one")
    items.add_argument(
        "--image",
        dest="asked",
        action="append",
        type=_spec(parse_image),
        metavar="WxH[xN]",
        help="an image, or N of them",
    )
    items.add_argument(
        "--video", dest="asked", action="append", type=_spec(parse_video), metavar="WxH@FRAMES", help="a video, sampled"
    )
    running = parser.add_argument_group("how it runs")
    running.add_argument("--budget", type=_count, metavar="N", help="show the calls under this budget, in patches")
    dtype_help = f"of the tower: {', '.join(DTYPE_BYTES)} (default: %(default)s)"
    running.add_argument("--dtype", choices=DTYPE_BYTES, default="bfloat16", metavar="NAME", help=dtype_help)
    sharing = "devices that share the tower (default: %(default)s)"
    running.add_argument("--tensor-parallel", type=_count, default=1, metavar="N", help=sharing)
    kinds = "fused, or math: keeps scores (default: %(default)s)"
    running.add_argument("--attention", choices=("fused", "math"), default="fused", metavar="KIND", help=kinds)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an SVG picture of the peak over the budget")


def execute(args: argparse.Namespace) -> int:
    """Print the plan, and draw it if asked to. Returns 0.

    Raises:
        UsageError: the model cannot be read, its processor refuses a size, or there is nothing to plan or to draw.
    """
    try:
        model = _model(args)
        items = items_of(args.asked or [], {"image": model.image, "video": model.video})
    except RefusedError as error:
        raise UsageError(str(error)) from error
    setting = Setting(DTYPE_BYTES[args.dtype], args.tensor_parallel, args.attention == "fused")
    plan = plan_of(model, items, setting, args.budget or 0)
    if args.plot:
        _draw(plan, args.plot)
    print(json.dumps(plan, indent=2) if args.json else as_text(plan))
    return 0


def _model(args: argparse.Namespace) -> Model:
    if args.model is None:
        model = _published(args)
    elif args.family or args.patch_size or args.merge_size or args.temporal_patch_size:
        raise RefusedError("--model tells the family and the patch sizes: leave those options out")
    else:
        model = read_model(args.model)
    image = _with_limits(model.image, args.min_pixels, args.max_pixels)
    return replace(model, image=image, video=_with_limits(model.video, args.video_min_pixels, args.video_max_pixels))


def _published(args: argparse.Namespace) -> Model:
    name = args.family or FAMILY_BY_PATCH_SIZE.get(args.patch_size)
    if name is None:
        raise RefusedError("which model? give --model DIR, or --patch-size 14 or 16, or --family with any patch size")
    family = FAMILIES[name]
    image, video = published_rules(
        family,
        patch_size=args.patch_size or family.patch_size,
        merge_size=args.merge_size or 2,
        temporal_patch_size=args.temporal_patch_size or 2,
    )
    return Model(family, image, video, None)


def _with_limits(rules: ResizeRules, least: int | None, most: int | None) -> ResizeRules:
    changed = replace(rules, min_pixels=least or rules.min_pixels, max_pixels=most or rules.max_pixels)
    if changed.min_pixels > changed.max_pixels:
        raise RefusedError(f"at least {changed.min_pixels:,} pixels and at most {changed.max_pixels:,} cannot both be")
    return changed


def _draw(plan: dict[str, object], file: Path) -> None:
    if plan["estimate"] is None:
        raise UsageError("--plot draws the estimate of memory, and there is none: it needs --model and a known tower")
    try:
        file.write_text(as_svg(plan), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 15 and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")


def _spec(parse: Callable[[str], Asked]) -> Callable[[str], Asked]:
    def read(text: str) -> Asked:
        try:
            return parse(text)
        except RefusedError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read
