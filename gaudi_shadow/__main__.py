"""`python -m gaudi_shadow`. This file parses from Python 3.6 on, and says there what is missing."""

import sys


def _main() -> int:
    if sys.version_info < (3, 10):  # noqa: UP036 - nothing but an installer reads requires-python, and a checkout has none
        if sys.stderr is not None:
            found = ".".join(map(str, sys.version_info[:3]))
            sys.stderr.write(f"gaudi-shadow needs Python 3.10 or later, this is {found}\n")
        return 64
    from gaudi_shadow.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
