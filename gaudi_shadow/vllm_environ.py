"""Make our variables known to vLLM, which warns about VLLM_* names it does not know, or refuses to start."""

from __future__ import annotations

import functools
import os
import sys

NAMES = (
    "VLLM_GAUDI_SHADOW",
    "VLLM_GAUDI_SHADOW_DISABLE",
    "VLLM_GAUDI_SHADOW_STRICT",
    "VLLM_HPU_MM_ENCODER_MAX_PATCHES",
)


def register_names() -> None:
    """Put our variables into `vllm.envs.environment_variables`, a dict of name -> function that gives the value.

    `EngineArgs.create_engine_config` holds the environment against that table, in vLLM 0.26.0 as in 0.30.0. Before it
    lies `EngineArgs.__post_init__`, which loads the general plugins: ours, and vllm-gaudi's, which imports a target.
    vLLM's Ray executor copies the names in the table to its workers. Nothing happens where `vllm.envs` is not loaded
    or has no such table; names that are in it already stay as they are.
    """
    table = getattr(sys.modules.get("vllm.envs"), "environment_variables", None)
    if isinstance(table, dict):
        for name in NAMES:
            table.setdefault(name, functools.partial(os.environ.get, name))
