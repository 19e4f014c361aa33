"""Children that end with the test run, also when that is ended from outside and no `finally` is reached."""

import shutil
import sys
from collections.abc import Sequence


def ends_with_us(command: Sequence[str], signal: str = "TERM") -> list[str]:
    """A command whose process the kernel sends `signal` as soon as this one is gone; pid and exit code are its own.

    Done by Debian's setpriv before the program begins: a `preexec_fn` would fork a process with threads. Where there is
    no setpriv (macOS), it is the plain command.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [setpriv, "--pdeathsig", signal, "--", *command] if setpriv else list(command)
