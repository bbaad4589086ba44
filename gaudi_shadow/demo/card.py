"""A stand-in for the card: it has so much memory and refuses what the Gaudi graph compiler cannot lower."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class VisionModel:
    """A vision tower whose output depends on each image's content and which asks the card for each patch.

    Args:
        memory: how many patches the card can hold in one call, or None for a card without limit.
        hidden: the width of an output row.
    """

    def __init__(self, memory: int | None, hidden: int = 8) -> None:
        self.memory = memory
        self.hidden = hidden
        self.calls: list[int] = []

    def embed_multimodal(self, image_grid_thw: Any, pixel_values: Any = None) -> list[torch.Tensor] | None:
        """One (patches / 4, hidden) tensor for each image; None without pixels, as the models in vLLM answer.

        Raises:
            RuntimeError: more patches in this call than the card can hold, in the words that the bridge uses.
        """
        if pixel_values is None:
            return None
        patches = [int(grid.prod()) for grid in image_grid_thw]
        self.calls.append(sum(patches))
        if self.memory is not None and sum(patches) > self.memory:
            raise RuntimeError(f"PT_DEVMEM Allocation failed for {sum(patches)} patches")
        scale = torch.arange(1, self.hidden + 1, dtype=torch.float32)
        return [pixels.float().reshape(-1, 4).sum(-1, keepdim=True) * scale for pixels in pixel_values]


class GraphCompiler(TorchFunctionMode):
    """Refuses `masked_scatter_` with a broadcast mask above a size, as the Gaudi graph compiler does.

    Args:
        limit: how many elements the broadcast mask may have, or None for a compiler without limit.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.masked_scatter_ and self.limit is not None:
            target, mask = args[0], args[1]
            if mask.shape != target.shape and target.numel() > self.limit:
                raise RuntimeError("Graph compile failed ... masked_scatter_ ... synStatus 26 [Generic failure]")
        return func(*args, **(kwargs or {}))
