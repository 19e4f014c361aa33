"""`python -m iop_trust`."""

import sys

from iop_trust.cli import main

if __name__ == "__main__":
    sys.exit(main())
