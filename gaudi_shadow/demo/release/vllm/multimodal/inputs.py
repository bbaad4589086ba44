"""Stand-in for vLLM's multimodal inputs: an item is a dict of field name -> element."""

from dataclasses import dataclass


class MultiModalKwargsItem(dict):
    """One image, video or sound, as its fields."""


@dataclass(frozen=True)
class MultiModalBatchedField:
    """How a field travels: one that stays on the CPU is kept when vLLM strips an item."""

    keep_on_cpu: bool = False


@dataclass
class MultiModalFieldElem:
    """One field of an item: its tensor, and how it travels."""

    data: object
    field: MultiModalBatchedField
