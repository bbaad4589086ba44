"""Stand-in for vllm_gaudi.v1.worker.hpu_model_runner: an encoder step with the stock faults, in our own words."""

import habana_frameworks.torch as htorch
import torch
from vllm.multimodal.utils import GROUPING_NAME
from vllm.v1.worker.utils import sanity_check_mm_encoder_outputs


class HPUModelRunner:
    """A runner that has requests, an encoder cache and a vision model, and nothing else."""

    uses_mrope = True
    device = "cpu"
    pin_memory = False

    def __init__(self, model, requests):
        self.model = model
        self.requests = requests
        self.encoder_cache = {}

    def _execute_mm_encoder(self, scheduler_output, req_ids):
        """The stand-in's stock encoder step: all that is not cached, as one batch."""
        missing = [
            feature
            for request in map(self.requests.__getitem__, req_ids)
            for feature in request.mm_features
            if feature.identifier not in self.encoder_cache
        ]
        if not missing:
            return
        encoded = []
        pairs = [(feature.modality, feature.data) for feature in missing]
        for _, count, batch in GROUPING_NAME(pairs, device=self.device, pin_memory=self.pin_memory):
            outputs = self.model.embed_multimodal(**batch)
            sanity_check_mm_encoder_outputs(outputs, expected_num_items=count)
            encoded.extend(outputs)
        for feature, output in zip(missing, encoded, strict=True):
            mask = feature.mm_position.is_embed
            if mask is not None:
                wide = torch.full((len(mask), output.shape[-1]), torch.nan, dtype=output.dtype)
                wide[mask] = output
                output = wide
            self.encoder_cache[feature.identifier] = output

    def _gather_mm_embeddings(self, scheduler_output, req_ids):
        """A stock method that no fix touches."""
        htorch.core.mark_step()
        return [self.encoder_cache[f.identifier] for r in req_ids for f in self.requests[r].mm_features]
