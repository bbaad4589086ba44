"""Declares the two operators for which torchvision's Python part registers meta kernels.

The torchvision of the ordinary index is built for CUDA: beside a CPU build of torch its compiled part does not load and
its import stops at `operator torchvision::nms does not exist`. Nothing here ever calls them. `import torch` calls
`declare` through the `torch.backends` entry point that make_env.sh writes.
"""

from __future__ import annotations


def declare() -> None:
    """Declare `nms` and `qnms`, once a process."""
    import torch

    if getattr(torch, "_torchvision_ops", None) is None:
        torch._torchvision_ops = library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
