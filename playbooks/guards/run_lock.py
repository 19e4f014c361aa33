"""One run at a time per environment of this checkout."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO, Any

LEFT_OVER_S = 30.0  # how long the last step of a run that was killed may still be at work


class RunLock:
    """A lock file that names its holder. The kernel lets go of it when the run ends, however that ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def take(self, what: str, patience_s: float = LEFT_OVER_S) -> str:
        """Take the lock for the life of this process; else the reason in words.

        Where the holder named is gone, a step that it began still runs (it inherited the lock): that is waited for.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # who can open it can hold it: the owner alone
            number = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            return (
                f"{self._path} cannot be opened ({error.strerror}), so nobody can tell whether another run is at work; "
                f"nothing was changed.\n  next: deploy as the account that owns this checkout"
            )
        file = os.fdopen(number, "a+", encoding="utf-8")
        until = time.monotonic() + patience_s
        while not _locked(file):
            holder = _holder(file)
            pid = holder.get("pid")
            if isinstance(pid, int) and _lives(pid):
                file.close()
                return (
                    f"{holder.get('what')} (pid {pid}, since {holder.get('since')}) runs on this environment already; "
                    f"nothing was changed.\n  next: wait for its end, or stop it (kill -INT {pid}); then run this again"
                )
            if time.monotonic() >= until:
                file.close()
                return (
                    f"the last step of a run that was killed (pid {pid}) is still at work; nothing was changed.\n"
                    f"  next: run this again in a minute, or look what it is: fuser -v '{self._path}'"
                )
            time.sleep(0.2)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "what": what, "since": since}) + "\n")
        file.flush()
        self._file = file
        return ""


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _holder(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        found = json.loads(file.read())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
