"""The vLLM general plugin: importing it installs the hook, calling it logs what became of the fixes.

vLLM imports all general plugins before it calls the first (`load_plugins_by_group` in vllm/plugins/__init__.py, in the
front end, the engine core and each worker), so the hook is there before vllm-gaudi's own plugins import a target. vLLM
swallows what the import of a plugin raises, and passes on what its call raises.
"""

from __future__ import annotations

import logging
import os

from gaudi_shadow.finder import install, is_strict, is_switched_off

install("plugin")

_told: set[int] = set()


def register() -> None:
    """Make our variables known to vLLM, and log one line a process: the release, the fixes, their states, the budget.

    Raises:
        ValueError: a fix's own variable has a value that it cannot use.
        RuntimeError: VLLM_GAUDI_SHADOW_STRICT is set, and a fix that should be there is not.
    """
    from gaudi_shadow.messages import logger
    from gaudi_shadow.vllm_environ import register_names

    register_names()
    if os.getpid() in _told:
        return
    _told.add(os.getpid())
    if is_switched_off():
        logger().info("gaudi-shadow: VLLM_GAUDI_SHADOW switches it off; vllm-gaudi runs stock")
        return
    from gaudi_shadow.process_line import process_line

    line, is_fault = process_line()
    if is_fault and is_strict():
        raise RuntimeError(f"VLLM_GAUDI_SHADOW_STRICT is set, and {line}")
    logger().log(logging.WARNING if is_fault else logging.INFO, "%s", line)
