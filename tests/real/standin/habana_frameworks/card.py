"""The card's memory and the graph compiler's limit, with the errors that a Gaudi gives at them.

Variables, read at each use so that one process can serve with several sizes:
    HPU_STANDIN_CARD_BYTES: the card's size in bytes; 0 meters without a limit. Unset at `import torch`: no meter.
    HPU_STANDIN_SCATTER_LIMIT: how many elements `masked_scatter_` may write to under a broadcast mask; unset: any.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CARD_BYTES = "HPU_STANDIN_CARD_BYTES"
SCATTER_LIMIT = "HPU_STANDIN_SCATTER_LIMIT"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


class CardMeter(TorchDispatchMode):
    """Counts the bytes that are alive on the card, and refuses what does not fit.

    On the card is what was made on or moved to "hpu" (`put_on_card`), and what an operator makes of it. An operator's
    scratch memory inside is not seen. Storages count once, whole, until nothing refers to them.

    Attributes:
        live: bytes on the card now.
        peak: the most so far, in bytes; callers may set it back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if any(self._is_on_card(tensor) for tensor in _tensors([args, kwargs])):
            self.put_on_card(result)
        return result

    def _is_on_card(self, tensor: torch.Tensor) -> bool:
        return _has_storage(tensor) and tensor.untyped_storage()._cdata in self._sizes

    def moved(self, result: Any, args: Any) -> Any:
        """What a call that names "hpu" gives: on the card, and never the host's own memory, which may be a larger one.

        Raises:
            RuntimeError: see `put_on_card`.
        """
        host = {each.untyped_storage()._cdata for each in _tensors(args) if _has_storage(each)} - self._sizes.keys()
        if isinstance(result, torch.Tensor) and _has_storage(result) and result.untyped_storage()._cdata in host:
            result = result.detach().clone()
        self.put_on_card(result)
        return result

    def put_on_card(self, value: Any) -> None:
        """Count the tensors in `value`.

        Raises:
            RuntimeError: they do not fit; the words are the bridge's.
        """
        for tensor in _tensors(value):
            if _has_storage(tensor):
                self._count(tensor.untyped_storage())

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._sizes:
            return
        limit = int(os.environ.get(CARD_BYTES, "0"))
        if limit and self.live + size > limit:
            raise RuntimeError(
                f"[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::{size} ({size >> 20}MB), "
                f"{self.live} of {limit} bytes in use"
            )
        self._sizes[key] = size
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, key).atexit = False

    def _release(self, key: int) -> None:
        self.live -= self._sizes.pop(key)


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type == "cpu"


meter: CardMeter | None = None


def meter_if_asked() -> CardMeter | None:
    """Start the meter in this thread if HPU_STANDIN_CARD_BYTES is set."""
    global meter
    if CARD_BYTES in os.environ:
        meter = CardMeter()
        meter.__enter__()
    return meter


def refuse_broadcast_scatter(target: torch.Tensor, mask: torch.Tensor) -> None:
    """Fail as the graph compiler does where a broadcast mask covers too large a target.

    Raises:
        RuntimeError: synStatus 26, in the words that the fix's seed quotes.
    """
    limit = os.environ.get(SCATTER_LIMIT)
    if limit and mask.shape != target.shape and target.numel() > int(limit):
        raise RuntimeError(
            f"Graph compile failed for masked_scatter_ on {tuple(target.shape)} with a mask of {tuple(mask.shape)}: "
            "synStatus 26 [Generic failure]"
        )
