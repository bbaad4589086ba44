"""What the maintainers of the overlays use: `verify` and `releases`."""
