"""`python -m iop_release`."""

import sys

from iop_release.cli import main

if __name__ == "__main__":
    sys.exit(main())
