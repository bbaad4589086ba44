"""Device "hpu" is the CPU, under one function mode; padding indices of -1 are as harmless as they are on an HPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from habana_frameworks.card import CardMeter, refuse_broadcast_scatter


def _is_hpu(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).partition(":")[0] == "hpu"


def _clamp_gather(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    dim, index = (args[i] if len(args) > i else kwargs.pop(name) for i, name in ((1, "dim"), (2, "index")))
    return (args[0], dim, index.clamp(0, args[0].shape[dim] - 1))


class HpuIsCpu(TorchFunctionMode):
    """What is made on or moved to "hpu" is made on the CPU, and told to the meter.

    Args:
        meter: the card's meter, or None when nobody asked for one.
    """

    def __init__(self, meter: CardMeter | None) -> None:
        self.meter = meter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        moves = any(map(_is_hpu, args)) or _is_hpu(kwargs.get("device"))
        if moves:
            args = tuple("cpu" if _is_hpu(value) else value for value in args)
            kwargs = {name: "cpu" if _is_hpu(value) else value for name, value in kwargs.items()}
        if func is torch.nn.functional.embedding:
            args = (args[0].clamp(min=0), *args[1:])
        elif func in (torch.Tensor.index_select, torch.index_select):
            args = _clamp_gather(args, kwargs)
        elif func is torch.Tensor.index_copy_ and bool((args[2] < 0).any()):
            keep = args[2] >= 0
            args = (args[0], args[1], args[2][keep], args[3][keep])
        elif func is torch.Tensor.masked_scatter_:
            refuse_broadcast_scatter(args[0], args[1])
        result = func(*args, **kwargs)
        return self.meter.moved(result, args) if moves and self.meter is not None else result
