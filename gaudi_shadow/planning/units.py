"""Bytes for people."""

from __future__ import annotations

MIB, GIB = 1 << 20, 1 << 30


def size_text(size: int) -> str:
    """Bytes as MiB below one GiB, and as GiB with two decimals from there."""
    return f"{size / GIB:,.2f} GiB" if size >= GIB else f"{size / MIB:,.0f} MiB"
