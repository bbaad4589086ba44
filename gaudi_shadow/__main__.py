"""`python -m gaudi_shadow`."""

import sys

from gaudi_shadow.cli import main

if __name__ == "__main__":
    sys.exit(main())
