"""The commands, one module each: HELP, add_arguments(parser), execute(args) -> exit code."""


class UsageError(Exception):
    """What was asked for cannot be; the message is one line that says what can. The command line exits with 64."""
