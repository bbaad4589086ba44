"""A stand-in for habana_frameworks: device "hpu" is the CPU, and what vllm-gaudi calls is plain PyTorch or a mock.

`import torch` calls `autoload` through the `torch.backends` entry point of the dist-info beside this package, as it
does for the real one. `plain_kernels` holds what is written out, `device` turns "hpu" into "cpu", `card` meters the
card and speaks for the graph compiler. It is enough for vllm-gaudi v0.26.0 and main of 2026-08-21 to serve small
models in vLLM's engine.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar
from unittest import mock

PACKAGES = {"torch", "core", "hpu", "utils", "internal", "distributed", "experimental", "hpex", "kernels"}
PACKAGES |= {"normalization", "bridge_config", "graphs"}


class ForgetfulMock(mock.MagicMock):
    """A MagicMock that keeps no list of its calls: in a server that list grows for ever."""

    def _increment_mock_call(self, *args: Any, **kwargs: Any) -> None:
        """What unittest.mock calls to note a call."""


class StandInModule(ModuleType):
    """Any module below habana_frameworks: what `plain_kernels` writes out, its sub-packages, and mocks for the rest."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        written = importlib.import_module("habana_frameworks.plain_kernels").WRITTEN
        if name in written:
            return written[name]
        full_name = f"{self.__name__}.{name}"
        if name in PACKAGES:
            return importlib.import_module(full_name)
        made = ForgetfulMock(name=full_name)
        setattr(self, name, made)
        return made


class StandInFinder:
    """The last finder on sys.meta_path: it answers for every module below habana_frameworks that is no file here."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for a name below habana_frameworks, None for all others."""
        return ModuleSpec(name, self, is_package=True) if name.startswith("habana_frameworks.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module whose attributes are made when they are asked for."""
        return StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


sys.meta_path.append(StandInFinder())


def autoload() -> None:
    """Make torch believe in a device "hpu" (2 of 4 GiB free), in this thread, and register its compile backend."""
    import torch
    from torch._dynamo.backends.registry import register_backend

    from habana_frameworks import card, device

    hpu = ForgetfulMock(name="torch.hpu")
    hpu.is_available.return_value, hpu.device_count.return_value = True, 1
    hpu.mem_get_info.return_value = (2 << 30, 4 << 30)
    hpu.memory_allocated.return_value = 1 << 30
    torch.accelerator.empty_host_cache = lambda: None  # vLLM 0.30.0 calls it when an engine ends
    torch.hpu = sys.modules["torch.hpu"] = hpu
    register_backend(lambda graph, inputs, **options: graph.forward, name="hpu_backend")
    meter = card.meter_if_asked()
    device.HpuIsCpu(meter).__enter__()
