"""The commands, one module each: HELP, add_arguments(parser), execute(args) -> exit code."""
