"""Figure 2: time of the merge against the broadcast masked_scatter_ of stock, bfloat16, one thread.

    python bench/merge_time.py --root TREE --python VENV/bin/python

`_merge_multimodal_embeddings` of a real release, stock and as the hook patches it, is given the same bool mask, rows
and target in turn. The rows come as one tensor, so that the copy itself is timed, and as one tensor for each item, as
the runner hands them over: then both functions concatenate them first, which takes about as long as the copy. The
floor is `index_copy_` alone, with the index given. The stand-in's function mode is off meanwhile: what it does to
index_copy_ is not ours.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from measuring import Figures, arguments, paired_ratio, run
from worker import Worker, functions_of, serve

ROWS_OF_AN_ITEM = 1024


def sizes(small: bool) -> dict[str, Any]:
    """Tokens of a step, hidden sizes, fill rates (the part of the tokens that are placeholders), pairs."""
    if small:
        return {"tokens": [256], "hidden": [64], "fills": [0.3, 0.9], "pairs": 3}
    return {
        "tokens": [2048, 4096, 8192, 16384, 32768],
        "hidden": [2048, 3584, 5120],
        "fills": [0.3, 0.6, 0.9],
        "pairs": 9,
    }


def measure(options: Any) -> Figures:
    """Each size in a process of its own."""
    size = sizes(options.small)
    worker = Worker(options, __file__, OMP_NUM_THREADS="1")
    rows = [
        worker.ask("merge", tokens=tokens, hidden=hidden, fill=fill, pairs=size["pairs"])
        for tokens in size["tokens"]
        for hidden in size["hidden"]
        for fill in size["fills"]
    ]
    worker.close()
    worst = {str(fill): max(row["ratio"] for row in rows if row["fill"] == fill) for fill in size["fills"]}
    return {
        "vllm": worker.setup.vllm_version,
        "pairs": size["pairs"],
        "dtype": "bfloat16",
        "bits_equal": all(row["bits_equal"] for row in rows),
        "worst_ratio_at_fill": worst,
        "rows": rows,
    }


# What follows runs in the worker.


def merge(tokens: int, hidden: int, fill: float, pairs: int) -> dict[str, Any]:
    """Stock, patched and `index_copy_` alone in turn, in CPU time; and whether the first two write the same bits."""
    import torch

    torch.manual_seed(0)
    with torch._C.DisableTorchFunction():
        mask = torch.zeros(tokens, dtype=torch.bool)
        mask[torch.randperm(tokens)[: round(fill * tokens)]] = True
        rows = torch.randn(1, int(mask.sum()), hidden, dtype=torch.bfloat16)
        target = torch.randn(tokens, hidden, dtype=torch.bfloat16)
        written = {name: function(target.clone(), rows, mask) for name, function in FUNCTIONS.items()}
        bits_equal = torch.equal(*(each.view(torch.int16) for each in written.values()))
        del written
        index = mask.nonzero().squeeze(-1)
        alone = {"alone": lambda target, rows, mask: target.index_copy_(0, index, rows[0])}
        seconds = _in_turn({**FUNCTIONS, **alone}, target, rows, mask, pairs)
        with_items = _in_turn(FUNCTIONS, target, torch.split(rows[0], ROWS_OF_AN_ITEM), mask, pairs)
    return {
        "tokens": tokens,
        "hidden": hidden,
        "fill": fill,
        "stock_ms": statistics.median(seconds["stock"]) * 1e3,
        "patched_ms": statistics.median(seconds["patched"]) * 1e3,
        "ratio": paired_ratio(seconds["patched"], seconds["stock"]),
        "ratio_of_index_copy_alone": paired_ratio(seconds["alone"], seconds["stock"]),
        "ratio_with_items": paired_ratio(with_items["patched"], with_items["stock"]),
        "bits_equal": bits_equal,
    }


def _in_turn(
    functions: Mapping[str, Callable[..., Any]], target: Any, rows: Any, mask: Any, pairs: int
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(pairs):
        for name in sorted(functions, reverse=bool(number % 2)):
            start = time.process_time()
            functions[name](target, rows, mask)
            seconds[name].append(time.process_time() - start)
    return seconds


if __name__ == "__main__":
    if sys.argv[1:] != ["--worker"]:
        sys.exit(run("merge_time", arguments(__doc__, real=True).parse_args(), measure))
    import vllm_gaudi.models.utils as utils_module

    FUNCTIONS = functions_of(utils_module._merge_multimodal_embeddings, utils_module)
    sys.exit(serve({"merge": merge}))
