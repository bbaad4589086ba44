"""Stand-in for vLLM's multimodal inputs: an item is a dict of field name -> element."""

from dataclasses import dataclass


@dataclass
class Field:
    """How a field travels: one that stays on the CPU is kept when vLLM strips an item."""

    keep_on_cpu: bool = False


@dataclass
class Element:
    """One field of an item: its tensor, and how it travels."""

    data: object
    field: Field


@dataclass
class PlaceholderRange:
    """Where an item's tokens lie in its prompt; is_embed marks those that take encoder output."""

    offset: int
    length: int
    is_embed: object = None


@dataclass
class Feature:
    """One item of a request."""

    identifier: str
    modality: str
    data: object
    mm_position: PlaceholderRange
