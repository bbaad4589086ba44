"""What a runner is made of in the tests: vLLM's parts or stand-ins for them, items, requests, and a vision tower."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import CHECKOUT

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[test]'")

STANDIN = CHECKOUT / "gaudi_shadow" / "demo" / "release"
# A field's layout: a row for each patch, one value for an item, and such a value that stays on the CPU.
FLAT, BATCHED, ON_CPU = "flat", "batched", "on cpu"
WIDTH = 4

Fields = Mapping[str, "tuple[torch.Tensor, str]"]


@dataclass(frozen=True)
class Parts:
    """vLLM's functions that a fixed function calls.

    Attributes:
        item: makes a MultiModalKwargsItem of a modality and {field name: (tensor, layout)}.
    """

    origin: str
    group: Callable[..., Iterator[Any]]
    check_outputs: Callable[..., None]
    flatten: Callable[[Any], torch.Tensor]
    count_expression: Callable[[Any], str]
    item: Callable[[str, Fields], Any]


def _standin(relative: str) -> Any:
    """A module of the stand-in release by its path, under a name of its own: there may be a real vllm beside it."""
    spec = importlib.util.spec_from_file_location("standin_" + relative.replace("/", "_"), STANDIN / f"{relative}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def own_parts() -> Parts:
    """The stand-in release's."""
    inputs, helpers = _standin("vllm/multimodal/inputs"), _standin("vllm/model_executor/models/utils")

    def item(modality: str, fields: Fields) -> Any:
        return inputs.MultiModalKwargsItem(
            (name, inputs.MultiModalFieldElem(data, inputs.MultiModalBatchedField(layout == ON_CPU)))
            for name, (data, layout) in fields.items()
        )

    return Parts(
        "stand-in",
        _standin("vllm/multimodal/utils").group_items,
        _standin("vllm/v1/worker/utils").sanity_check_mm_encoder_outputs,
        helpers._flatten_embeddings,
        helpers._embedding_count_expression,
        item,
    )


@cache
def vllm_parts() -> Parts:
    """vLLM's own, with items from its field configs. Raises ImportError without vLLM."""
    import vllm
    from vllm.model_executor.models.utils import _embedding_count_expression, _flatten_embeddings
    from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItems
    from vllm.multimodal.utils import group_and_batch_mm_kwargs
    from vllm.v1.worker.utils import sanity_check_mm_encoder_outputs

    def item(modality: str, fields: Fields) -> Any:
        inputs, configs = {}, {}
        for name, (data, layout) in fields.items():
            if layout == FLAT:
                inputs[name] = data
                configs[name] = MultiModalFieldConfig.flat_from_sizes(modality, torch.tensor([len(data)]))
            else:
                inputs[name] = data[None]
                configs[name] = MultiModalFieldConfig.batched(modality, keep_on_cpu=layout == ON_CPU)
        return MultiModalKwargsItems.from_hf_inputs(inputs, configs)[modality][0]

    return Parts(
        f"vLLM {vllm.__version__}",
        group_and_batch_mm_kwargs,
        sanity_check_mm_encoder_outputs,
        _flatten_embeddings,
        _embedding_count_expression,
        item,
    )


def has_vllm() -> bool:
    return importlib.util.find_spec("vllm") is not None


def best_parts() -> Parts:
    """vLLM's own where it is installed, else stand-ins."""
    return vllm_parts() if has_vllm() else own_parts()


def noise(seed: int, *shape: int, dtype: Any = None) -> torch.Tensor:
    """Numbers that belong to a seed, so that an output under the wrong hash is seen."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float32)


def image(parts: Parts, seed: int, *grid: int, modality: str = "image", pixels: str = "pixel_values") -> Any:
    """An item with a grid; `grid` is t, h, w, or one number of patches."""
    thw = torch.tensor(grid if len(grid) == 3 else (1, 1, *grid))
    rows = noise(seed, int(thw.prod()), WIDTH)
    return parts.item(modality, {pixels: (rows, FLAT), f"{modality}_grid_thw": (thw, ON_CPU)})


def video(parts: Parts, seed: int, *grid: int) -> Any:
    return image(parts, seed, *grid, modality="video", pixels="pixel_values_videos")


def audio(parts: Parts, seed: int) -> Any:
    return parts.item("audio", {"input_features": (noise(seed, 3, WIDTH), BATCHED)})


def stripped(parts: Parts, item: Any) -> Any:
    """What vLLM leaves of an item that the prefix cache covers, for a model with M-RoPE."""
    return type(item)({name: element for name, element in item.items() if element.field.keep_on_cpu})


def feature(identifier: str, data: Any, modality: str = "image", is_embed: Any = None) -> Any:
    position = SimpleNamespace(offset=0, length=0, is_embed=is_embed)
    return SimpleNamespace(identifier=identifier, modality=modality, data=data, mm_position=position)


class Tower:
    """A vision model: twice its input plus one, row by row, so that no output depends on the batch it was in.

    Attributes:
        calls: the arguments of each call.
        patches, items: what each call put through the tower, and how many items that were.
        events: each call appends "embed_multimodal".
        faulty: number of a call, counted from 1 -> "raises", "too few" or "too many".
    """

    def __init__(self, events: list[str] | None = None, faulty: Mapping[int, str] | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.events = [] if events is None else events
        self.faulty = faulty or {}

    @property
    def patches(self) -> list[int]:
        return [sum(len(rows) for rows in _per_item(call)) for call in self.calls]

    @property
    def items(self) -> list[int]:
        return [len(_per_item(call)) for call in self.calls]

    def embed_multimodal(self, **batch: Any) -> Any:
        self.calls.append(batch)
        self.events.append("embed_multimodal")
        fault = self.faulty.get(len(self.calls))
        if fault == "raises":
            raise RuntimeError("PT_DEVMEM Allocation failed")
        if all(name.endswith("_grid_thw") for name in batch):
            return None  # as the models of the Qwen-VL line do without pixels
        outputs = [output_of(rows) for rows in _per_item(batch)]
        return {None: outputs, "too few": outputs[:-1], "too many": [*outputs, outputs[-1]]}[fault]


def output_of(rows: torch.Tensor) -> torch.Tensor:
    """What a Tower makes of an item's rows."""
    return rows * 2 + 1


def _per_item(batch: Mapping[str, Any]) -> Sequence[torch.Tensor]:
    grid = next((value for name, value in batch.items() if name.endswith("_grid_thw")), None)
    values = next(value for name, value in batch.items() if not name.endswith("_grid_thw"))
    if grid is None:
        return list(values)
    rows = values if isinstance(values, torch.Tensor) else torch.cat(list(values))
    return rows.split(grid.prod(-1).tolist())


@dataclass
class Runner:
    """As much of an HPUModelRunner as its encoder step touches."""

    model: Any
    requests: dict[str, Any]
    encoder_cache: dict[str, Any] = field(default_factory=dict)
    uses_mrope: bool = True
    device: Any = "cpu"
    pin_memory: bool = False


def runner_of(requests: Mapping[str, Sequence[Any]], model: Any = None, **options: Any) -> Runner:
    """A runner with {request: its features}."""
    states = {name: SimpleNamespace(mm_features=list(features)) for name, features in requests.items()}
    return Runner(model or Tower(), states, **options)


def assert_same(left: Any, right: Any) -> None:
    """Equal bit for bit: tensors, and lists and dicts of them."""
    if isinstance(left, torch.Tensor):
        assert isinstance(right, torch.Tensor)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert torch.equal(bits(left), bits(right))
    elif isinstance(left, Mapping):
        assert list(left) == list(right)
        assert_same(list(left.values()), list(right.values()))
    elif isinstance(left, list | tuple):
        assert type(left) is type(right) and len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert left == right


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits as integers: NaN equals itself, and -0.0 is not 0.0."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(whole)
