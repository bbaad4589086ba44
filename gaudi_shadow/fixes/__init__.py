"""What the grafted functions call. Shared by all releases; imported only when a target is patched."""
