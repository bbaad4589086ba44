"""Stand-in for habana_frameworks.torch."""

from habana_frameworks.torch import core

__all__ = ["core"]
