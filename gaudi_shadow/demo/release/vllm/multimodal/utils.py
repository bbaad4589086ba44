"""Stand-in for vLLM's batching of multimodal items."""

import itertools

import torch


def group_items(mm_kwargs, *, device=None, pin_memory=False):
    """Yield (modality, count, batch) for each run of items with one modality and the same fields."""
    kind = lambda pair: (pair[0], tuple(pair[1].keys()))  # noqa: E731
    for (modality, names), run in itertools.groupby(mm_kwargs, key=kind):
        items = [item for _, item in run]
        batch = {name: torch.stack([item[name].data for item in items]) for name in names if name.endswith("_grid_thw")}
        batch |= {name: [item[name].data for item in items] for name in names if name not in batch}
        yield modality, len(items), batch


GROUPING_NAME = group_items
