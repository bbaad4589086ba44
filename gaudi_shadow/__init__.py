"""gaudi-shadow: fixes for vllm-gaudi that are applied when its modules are imported; nothing on disk changes.

This module is imported in every Python process of an environment that has the hook, so it imports nothing itself.
"""

__version__ = "0.1.0"

__all__ = ["__version__", "status"]


def status() -> "dict[str, object]":
    """What happened to each target module in the present process.

    Returns:
        A dict that `json` can write: `version`, `hook` (active or not, by which route, and why not), `release`,
        `modules` (one entry for each target: its state, the overlay, and for each fix its state and the reason) and
        `counters` (what the fixes have done since the process started).
    """
    from gaudi_shadow.record import describe

    return describe()
