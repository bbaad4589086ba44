"""The runner's encoder step, shared by mm-encoder-budget and mm-encoder-covered, which change the same function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from gaudi_shadow import counters
from gaudi_shadow.fixes import mm_encoder_budget, mm_encoder_covered
from gaudi_shadow.messages import logger


class Item(NamedTuple):
    """One feature that waits for the encoder.

    Attributes:
        identifier: its key in the encoder cache.
        modality: "image", "video", "audio", ...
        data: its MultiModalKwargsItem.
        position: its PlaceholderRange; `is_embed` is a bool tensor of shape (length,) or None.
        patches: what it puts through the vision tower, or None when that cannot be known.
    """

    identifier: str
    modality: str
    data: Any
    position: Any
    patches: int | None


def encode_uncached(
    runner: Any,
    req_ids: Sequence[str],
    *,
    group_and_batch: Callable[..., Iterator[tuple[str, int, dict[str, Any]]]],
    check_outputs: Callable[..., None],
    mark_step: Callable[[], None],
) -> None:
    """Encode what the scheduled requests hold and the encoder cache does not; put each output under its hash.

    Without a budget this makes the very calls of the stock runner. With one, each group runs, is checked and is cached
    before the next begins, so that an error leaves only whole, right entries, and nothing of a past group but its
    outputs stays alive.

    Args:
        runner: the HPUModelRunner.
        req_ids: the scheduled requests.
        group_and_batch: vLLM's function that batches (modality, data) pairs and moves them to the device.
        check_outputs: vLLM's `sanity_check_mm_encoder_outputs`; it raises AssertionError.
        mark_step: closes the lazy-mode graph, so that the graphs of two groups are not merged into one.
    """
    items = _waiting_items(runner, req_ids)
    if not items:
        return
    limit = mm_encoder_budget.budget()
    groups = [items]
    if limit:
        groups = list(
            mm_encoder_budget.consecutive_groups(
                items, limit, patches=lambda item: item.patches, modality=lambda item: item.modality
            )
        )
    _count(items, groups)
    for number, group in enumerate(groups):
        if number:
            mark_step()
        _encode_group(runner, group, group_and_batch, check_outputs)


def _waiting_items(runner: Any, req_ids: Sequence[str]) -> list[Item]:
    items = []
    for req_id in req_ids:
        for feature in runner.requests[req_id].mm_features:
            if feature.identifier in runner.encoder_cache:
                continue
            data = feature.data
            if mm_encoder_covered.is_on() and mm_encoder_covered.is_stripped(data, getattr(runner, "uses_mrope", True)):
                counters.add("covered_features_skipped")
                continue
            patches = mm_encoder_budget.patches_of(data)
            items.append(Item(feature.identifier, feature.modality, data, feature.mm_position, patches))
    return items


def _encode_group(
    runner: Any,
    group: list[Item],
    group_and_batch: Callable[..., Iterator[tuple[str, int, dict[str, Any]]]],
    check_outputs: Callable[..., None],
) -> None:
    pairs = [(item.modality, item.data) for item in group]
    waiting = iter(group)
    for _, count, batch in group_and_batch(pairs, device=runner.device, pin_memory=runner.pin_memory):
        _encode_batch(runner, list(islice(waiting, count)), batch, check_outputs)


def _encode_batch(runner: Any, items: list[Item], batch: dict[str, Any], check_outputs: Callable[..., None]) -> None:
    counters.note_largest("largest_call_patches", sum(item.patches or 0 for item in items))
    outputs = runner.model.embed_multimodal(**batch)
    check_outputs(outputs, expected_num_items=len(items))
    counters.add("encoder_calls")
    # All before any is cached: under -O the check is gone, and a wrong count would leave rows under the wrong hash.
    placed = [
        (item.identifier, _at_placeholders(output, item.position.is_embed))
        for item, output in zip(items, outputs, strict=True)
    ]
    for identifier, output in placed:
        runner.encoder_cache[identifier] = output


def _at_placeholders(output: Any, is_embed: Any) -> Any:
    """Spread (embeds, hidden) rows over (length, hidden) where the placeholder has other tokens too; those are NaN."""
    if is_embed is None:
        return output
    takes_output = is_embed.to(output.device)
    spread = output.new_full((len(takes_output), output.shape[-1]), float("nan"))
    spread[takes_output] = output
    return spread


def _count(items: list[Item], groups: list[list[Item]]) -> None:
    sums = [sum(item.patches or 0 for item in group) for group in groups]
    counters.add("groups_split", len(groups) - 1)
    counters.add("items_without_grid", sum(item.patches is None for item in items))
    log = logger()
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "gaudi-shadow: encoder step: %d items, %d patches, %d groups, largest group %d patches",
            *(len(items), sum(sums), len(groups), max(sums)),
        )
