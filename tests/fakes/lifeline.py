"""Children that end with the test run, also when that is ended from outside and no `finally` is reached."""

import ctypes
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def ends_with_us(number: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """What a child has to call before its program begins (`preexec_fn`): the kernel then sends it `number` as soon as
    this process is gone. None where there is no such thing (all but Linux).
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def hold() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))

    return hold
