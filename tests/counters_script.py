"""Run in an interpreter of its own by test_counters.py: encoder steps and merges, what was counted and logged."""

from __future__ import annotations

import io
import json
import logging
import sys
from types import SimpleNamespace

log = io.StringIO()
handler = logging.StreamHandler(log)
handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
logging.getLogger("vllm").addHandler(handler)
logging.getLogger("vllm").setLevel(logging.INFO)

import torch  # noqa: E402
import vllm_gaudi.models.utils as utils  # noqa: E402
from vllm.multimodal.inputs import MultiModalBatchedField, MultiModalFieldElem, MultiModalKwargsItem  # noqa: E402
from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner  # noqa: E402

import gaudi_shadow  # noqa: E402

answers: dict[str, object] = {"imported": log.getvalue()}


def counted(name, work):
    """Record under `name` what a piece of work adds to the counters and to the log, and its error."""
    before, logged, error = gaudi_shadow.status()["counters"], len(log.getvalue()), None
    try:
        work()
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    after = gaudi_shadow.status()["counters"]
    added = {counter: after[counter] - before[counter] for counter in after if after[counter] != before[counter]}
    answers[name] = {"added": added, "log": log.getvalue()[logged:], "error": error}


def item(patches=None, stripped=False):
    fields = {}
    if not stripped:
        fields["pixel_values"] = MultiModalFieldElem(torch.rand(patches or 5), MultiModalBatchedField())
    if patches is not None:
        grid = torch.tensor([1, 1, patches])
        fields["image_grid_thw"] = MultiModalFieldElem(grid, MultiModalBatchedField(keep_on_cpu=True))
    return MultiModalKwargsItem(fields)


def encode(*items, cached=(), broken=False):
    def embed_multimodal(pixel_values, **rest):
        if broken:
            raise RuntimeError("the tower fails")
        return [pixels[:, None] for pixels in pixel_values]

    position = SimpleNamespace(is_embed=None)
    features = [
        SimpleNamespace(identifier=f"h{number}", modality="image", data=data, mm_position=position)
        for number, data in enumerate(items)
    ]
    runner = HPUModelRunner(
        SimpleNamespace(embed_multimodal=embed_multimodal), {"A": SimpleNamespace(mm_features=features)}
    )
    runner.encoder_cache.update(dict.fromkeys(cached, "a sentinel"))
    runner._execute_mm_encoder(None, ["A"])


def merge(rows, mask):
    utils._merge_multimodal_embeddings(torch.zeros(4, 2), [torch.ones(rows, 2)] if rows is not None else [], mask)


TWO = torch.tensor([True, False, True, False])
counted("groups", lambda: encode(*map(item, [3, 3, 4, 20, 1, 9])))
logging.getLogger("vllm").setLevel(logging.DEBUG)
counted("groups at DEBUG", lambda: encode(*map(item, [3, 3, 4, 20, 1, 9])))
counted("larger", lambda: encode(item(33)))
counted("smaller", lambda: encode(item(2)))
counted("no grid", lambda: encode(item(), item(4), item()))
counted("covered", lambda: encode(item(4, stripped=True), item(4), item(6, stripped=True)))
counted("cached", lambda: encode(item(4), cached=["h0"]))
counted("broken", lambda: encode(item(4), broken=True))
counted("mask", lambda: merge(2, TWO))
counted("index", lambda: merge(3, torch.tensor([0, 1, 3])))
counted("nothing to merge", lambda: merge(None, TWO))
counted("too few", lambda: merge(1, TWO))
counted("too many", lambda: merge(3, torch.tensor([0, 1])))
json.dump(answers, sys.stdout)
