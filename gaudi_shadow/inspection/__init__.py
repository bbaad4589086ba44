"""What `check`, `status`, `show`, `diff` and `report` look at: they ask a new interpreter, and execute nothing else."""
