"""Stand-in for vLLM's table of known environment variables."""

environment_variables = {}
