"""mm-encoder-covered: do not encode what the prefix cache covers.

vLLM 0.30.0 strips the data of a feature whose placeholder the prefix cache covers (`strip_covered_mm_data` in
vllm/multimodal/utils.py), since no step will need its encoder output. vllm-gaudi's runner encodes it all the same when
the output has left the encoder cache, and the engine dies: "Expected multimodal embeddings ... got NoneType".
"""

from __future__ import annotations

from typing import Any

_on = False


def configure(on: bool) -> str:
    """Switch the fix on or off in this process, when the runner is imported. There is nothing to report beside it."""
    global _on
    _on = on
    return ""


def is_on() -> bool:
    """Whether covered features are left out."""
    return _on


def is_stripped(data: Any, uses_mrope: bool) -> bool:
    """Whether vLLM has stripped a feature's data; positions play no part.

    Args:
        data: the feature's MultiModalKwargsItem, or None. Each element's `field.keep_on_cpu` tells whether it stays.
        uses_mrope: whether the model uses M-RoPE; for such models vLLM keeps the fields that stay on the CPU, since
            positions are computed from them.
    """
    if data is None:
        return True
    return uses_mrope and all(_stays_on_cpu(element) for element in data.values())


def _stays_on_cpu(element: Any) -> bool:
    return bool(getattr(getattr(element, "field", None), "keep_on_cpu", False))
