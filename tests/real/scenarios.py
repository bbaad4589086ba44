"""What is asked of which engine: the plans for engine_worker.py, and the requests in them.

A plan without the hook is "reference" (no limits, one request at a time, no prefix cache) or "stock" (the limits and
the traffic that kill it); "patched" meets the same limits and traffic with the hook, and more.
"""

from __future__ import annotations

from typing import Any

from asking import Request

Plan = dict[str, Any]

IMAGE_PATCHES = 32 * 32  # of one 512x512 image
BUDGET = IMAGE_PATCHES
CARD_BYTES = 64 << 20
# One request of two images is (1, 256, 64) in llava and (1, 128, 64) in gemma3: two in one prefill are over the limit.
SCATTER_LIMIT = {"llava": 20_000, "gemma3": 10_000}
FLAT_MASK = tuple(SCATTER_LIMIT)

ONE_LARGE: Request = {"images": [[100, 512, 512]]}
MANY_LARGE: list[Request] = [{"images": [[seed + number, 512, 512] for number in range(7)]} for seed in (100, 110)]
EXCHANGED: list[Request] = [
    {"images": [[seed + 5000 * (seed == other), 512, 512] for seed in range(100, 107)]} for other in range(100, 107)
]
PAIRS: list[Request] = [{"images": [[200 + 2 * i, 112, 112], [201 + 2 * i, 112, 112]]} for i in range(8)]

_WORDS = " Tell me about it. " * 20  # the image's placeholder must lie in whole blocks of 128 tokens
FIRST_VISIT: Request = {"images": [[300, 256, 256]], "words": _WORDS}
SECOND_VISIT: Request = {"images": [[300, 256, 256]], "words": _WORDS + " And what else is there to see? " * 10}
# 64 tokens each: 32 of them push the first image out of an encoder cache of 2,048 tokens.
IN_BETWEEN: list[Request] = [{"images": [[301 + i, 256, 256]], "words": " short ", "tokens": 1} for i in range(40)]

CHUNK = 512
# One token a letter: the 256 tokens of the image lie at 401 to 657, across the end of the first chunk.
ACROSS_CHUNKS: list[Request] = [{"before": "a" * 400, "images": [[seed, 512, 512]]} for seed in (400, 401)]
MIXED: list[Request] = [
    {"words": "Once upon a time there was a card"},
    {"images": [[410, 192, 192]]},
    {"images": [[410, 192, 192], [410, 192, 192]]},
    {"images": [[411, 256, 160], [410, 192, 192], [411, 256, 160]]},
    {"videos": [[420, 4, 160, 160]]},
    {"images": [[412, 320, 160]], "videos": [[421, 6, 128, 192]]},
    {"videos": [[420, 4, 160, 160]], "words": " Again: what is it? "},
    {"words": "Nothing to see here. " * 30},
    *ACROSS_CHUNKS,
]
LOAD: list[Request] = [
    {"images": [[500 + n, *first], [520 + n, *second]], "words": f"Question {n}: what is it?"}
    for n, (first, second) in enumerate(
        [((192, 192), (256, 160)), ((512, 512), (160, 320)), ((64, 64), (640, 320)), ((384, 256), (384, 256))] * 4
    )
]


def limits(family: str, images: int = 8, videos: int = 0) -> dict[str, Any]:
    """How many images and videos a prompt may hold, as an option for LLM."""
    # Video counts for the largest item, and so for the encoder cache: allowed, nothing is ever pushed out of it here.
    return {"limit_mm_per_prompt": {"image": images, **({"video": videos} if family == "qwen3vl" else {})}}


def _engine(name: str, family: str, steps: list[tuple[str, str, list[Request]]], **options: Any) -> Plan:
    environ = options.pop("environ", {})
    made = [{"name": step, "how": how, "requests": requests} for step, how, requests in steps]
    options = {**limits(family), **options}
    return {"name": name, "family": family, "environ": environ, "options": options, "steps": made}


def _batching(family: str, steps: list[tuple[str, str, list[Request]]], name: str) -> Plan:
    environ = {"VLLM_PROMPT_BS_BUCKET_MAX": "4", "HPU_STANDIN_SCATTER_LIMIT": str(SCATTER_LIMIT[family])}
    return _engine(name, family, steps, environ=environ)


def _small_card(steps: list[tuple[str, str, list[Request]]]) -> Plan:
    return _engine("small card", "qwen3vl", steps, environ={"HPU_STANDIN_CARD_BYTES": str(CARD_BYTES)})


def _covered() -> Plan:
    return _engine("covered", "qwen3vl", [("second visit", "alone", [FIRST_VISIT, *IN_BETWEEN, SECOND_VISIT])])


def _video(name: str, steps: list[tuple[str, str, list[Request]]], **options: Any) -> Plan:
    return _engine(name, "qwen3vl", steps, **limits("qwen3vl", 8, 1), **options)


def reference() -> list[Plan]:
    """Stock, one request at a time, without prefix cache and without limits: the tokens that all others are held to."""
    off = {"enable_prefix_caching": False}
    alone = [("one", "alone", [ONE_LARGE]), ("many", "alone", MANY_LARGE), ("exchanged", "alone", EXCHANGED)]
    alone += [("visits", "alone", [FIRST_VISIT, *IN_BETWEEN, SECOND_VISIT]), ("load", "chat", LOAD)]
    return [
        _engine("large card", "qwen3vl", alone, **off),
        _video("mixed", [("mixed", "alone", MIXED)], **off),
        _engine("batching llava", "llava", [("pairs", "alone", PAIRS), ("load", "chat", LOAD)], **off),
        _engine("batching gemma3", "gemma3", [("pairs", "alone", PAIRS)], **off),
    ]


def stock() -> list[Plan]:
    """What kills stock: after a step that it lives through, the one that it does not."""
    return [
        _small_card([("one", "alone", [ONE_LARGE]), ("many", "alone", MANY_LARGE)]),
        *[
            _batching(
                family, [("one pair", "alone", PAIRS[:1]), ("pairs at once", "together", PAIRS)], f"batching {family}"
            )
            for family in FLAT_MASK
        ],
        _covered(),
        _video("mixed", _mixed_steps(), max_num_batched_tokens=CHUNK),
    ]


def _mixed_steps() -> list[tuple[str, str, list[Request]]]:
    return [
        ("across chunks", "alone", ACROSS_CHUNKS),
        ("all at once", "together", MIXED),
        ("all again", "together", MIXED[::-1]),
        ("half aborted", "abort", MIXED[2:] + ACROSS_CHUNKS),
        ("after that", "together", MIXED),
    ]


def patched() -> list[Plan]:
    """The same limits and traffic with the hook, and on."""
    pairs = [("one pair", "alone", PAIRS[:1]), ("pairs at once", "together", PAIRS), ("again", "together", PAIRS[::-1])]
    return [
        _small_card(
            [("one", "alone", [ONE_LARGE]), ("many", "alone", MANY_LARGE), ("at once", "together", MANY_LARGE)]
        ),
        *[_batching(family, pairs, f"batching {family}") for family in FLAT_MASK],
        _covered(),
        _video("mixed", _mixed_steps(), max_num_batched_tokens=CHUNK),
    ]
