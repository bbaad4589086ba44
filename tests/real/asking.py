"""What is asked of an engine: a request as plain JSON, and what vLLM wants instead of it.

A request is {"images": [[seed, width, height], ...], "videos": [[seed, frames, width, height], ...], "words": "...",
"before": "...", "tokens": 8}; all may be left out. `before` stands before the pictures, `tokens` is how many are
wanted. Pictures are noise in squares of 8 pixels, so that no two have rows alike.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

from tiny_models import IMAGE_WORD, VIDEO_WORD

Request = dict[str, Any]


TOKENS = 8
TOKENS_TO_ABORT = 200  # of the answers whose client hangs up at the first
ENGINE_MARK = "=== engine: "  # a line on stderr before each engine of a plan


def key_of(request: Request) -> str:
    """A name for a request that is the same in every process."""
    return json.dumps(request, sort_keys=True)


def _noise(seed: int, *shape: int) -> Any:
    import numpy

    return numpy.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype="uint8")


def picture(seed: int, width: int, height: int) -> Any:
    """A PIL image of `width` times `height` pixels."""
    from PIL import Image

    squares = Image.fromarray(_noise(seed, max(1, height // 8), max(1, width // 8)))
    return squares.resize((width, height), Image.Resampling.NEAREST)


def video(seed: int, frames: int, width: int, height: int) -> Any:
    """What vLLM takes for a video: frames of shape (frames, height, width, 3), uint8, and how they were sampled."""
    import numpy

    stack = numpy.stack([numpy.asarray(picture(seed * 1000 + frame, width, height)) for frame in range(frames)])
    about = {
        "fps": 2.0,
        "duration": frames / 2,
        "total_num_frames": frames,
        "frames_indices": list(range(frames)),
        "video_backend": "opencv",
        "do_sample_frames": False,
    }
    return stack, about


def prompt_of(family: str, request: Request) -> dict[str, Any]:
    """A prompt for `LLM.generate`."""
    images, videos = request.get("images", []), request.get("videos", [])
    words = [f"{IMAGE_WORD[family]} picture {number}, " for number, _ in enumerate(images)]
    words += [f"{VIDEO_WORD[family]} film {number}, " for number, _ in enumerate(videos)]
    data: dict[str, Any] = {}
    if images:
        data["image"] = [picture(*each) for each in images]
    if videos:
        data["video"] = [video(*each) for each in videos]
    prompt = request.get("before", "") + "".join(words) + request.get("words", " What is it? ")
    return {"prompt": prompt, **({"multi_modal_data": data} if data else {})}


def messages_of(request: Request) -> list[dict[str, Any]]:
    """The same as OpenAI chat messages; pictures as PNG in data URLs."""
    parts = []
    for each in request.get("images", []):
        file = io.BytesIO()
        picture(*each).save(file, "PNG")
        url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
        parts.append({"type": "image_url", "image_url": {"url": url}})
    parts.append({"type": "text", "text": request.get("words", " What is it? ")})
    return [{"role": "user", "content": parts}]


CHAT_TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"
