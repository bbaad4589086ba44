"""Stand-in for the bridge: counts graph breaks, and refuses what the Gaudi graph compiler cannot lower."""

MASK_LIMIT = 1 << 16
steps = 0


def mark_step():
    """Close the graph."""
    global steps
    steps += 1


def compile_graph(op, mask):
    """Refuse a broadcast (stride 0) mask above a size, in the words that the real compiler uses."""
    if 0 in mask.stride() and mask.numel() > MASK_LIMIT:
        raise RuntimeError(f"Graph compile failed. {op} synStatus 26 [Generic failure]")
