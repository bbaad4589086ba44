"""mm-encoder-budget and mm-encoder-covered for the runner of v0.30.0; what is not defined here is stock."""


class HPUModelRunner:
    def _execute_mm_encoder(self, scheduler_output, req_ids):
        """Encode the scheduled requests' uncached, uncovered items in groups within the patch budget (gaudi-shadow)."""
        from gaudi_shadow.fixes.mm_encoder import encode_uncached

        encode_uncached(
            self,
            req_ids,
            group_and_batch=group_and_batch_mm_kwargs,
            check_outputs=sanity_check_mm_encoder_outputs,
            mark_step=lambda: htorch.core.mark_step(),
        )
