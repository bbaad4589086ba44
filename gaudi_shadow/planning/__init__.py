"""What `gaudi-shadow plan` computes: patches, tokens, encoder calls and memory, from sizes and config files alone.

Nothing here imports torch, vllm or transformers; tests/test_plan_real_processors.py and bench/fit_plan_memory.py hold
it against theirs.
"""
