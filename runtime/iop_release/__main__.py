"""`python -m iop_release`, and the first file of the helper as a program (see `app`): it must parse on any Python."""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - a host's Python may be older than ours
        sys.exit("error: " + sys.executable + " is Python " + sys.version.split()[0] + "; iop needs 3.11 or newer")
    from iop_release.cli import main

    sys.exit(main())
