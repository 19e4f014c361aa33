"""A run holds each host that it may change, so that no other run from another machine or checkout changes it as well.

A hold is a small file of the deploying account, one per host's folder: who, since when, and until when at most, by the
host's clock. Its run renews it and lets go of it at its end. After a run that was killed, another run of the same
checkout takes it over at once (of one checkout only one runs at a time), and whoever else when its time is over, or
when asked to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from iop_release.errors import ReleaseError
from iop_release.lock import locked

FOLDER = Path(".cache", "iop")  # in the account's home, because a hold comes before the host's folder
CLOCK_S = 3600.0  # a hold that ends later than its lease allows by more than this was written under another clock


@dataclass(frozen=True)
class Run:
    """One run. `holder` names machine and checkout for a person; `key` tells them apart."""

    run: str
    holder: str
    key: str


def path_of(root: Path, home: Path) -> Path:
    """The file of the hold on this host's folder."""
    name = hashlib.sha256(str(root.absolute()).encode()).hexdigest()[:12]
    return home / FOLDER / f"hold-{name}.json"


def take(
    path: Path, run: Run, lease_s: float, *, over: bool = False, clock: Callable[[], float] = time.time
) -> dict[str, Any] | None:
    """Take or renew the hold for `lease_s` seconds; return the hold of another run that it replaces, None for none.

    Raises `ReleaseError` while another checkout holds it, unless `over`.
    """
    with _opened(path) as file:
        now = clock()
        before = _read(file)
        same = before is not None and before["run"] == run.run
        if before is not None and not same and before["key"] != run.key and not over and _is_valid(before, now):
            raise _refused(before, now)
        since = before["since"] if before is not None and same else now
        _write(file, {**asdict(run), "since": since, "until": now + lease_s, "lease_s": lease_s})
        return None if same else before


def let_go(path: Path, run: str) -> bool:
    """End the hold of this run; False where it is not the holder. The file goes with it."""
    if not path.is_file():
        return False
    with _opened(path) as file:
        before = _read(file)
        if before is not None and before["run"] != run:
            return False
        _write(file, {})
        with contextlib.suppress(OSError):  # Windows keeps what is open; without content it holds nothing
            path.unlink()
    return before is not None


def _is_valid(before: dict[str, Any], now: float) -> bool:
    return bool(now < before["until"] <= now + before["lease_s"] + CLOCK_S)


def _refused(before: dict[str, Any], now: float) -> ReleaseError:
    since, until = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(before[one])) for one in ("since", "until"))
    left = max(1, round((before["until"] - now) / 60))
    return ReleaseError(
        f"{before['holder']} is at work on this host (run {before['run']}, since {since}), so nothing was changed. "
        f"Its hold ends with it, or at {until} by this host's clock ({left} min from now) if it is dead",
        "next: wait for it; or repair from that checkout, which goes on at once; or, knowing that it is dead, "
        "take over: -e take_over=true",
    )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, locked; one that was removed while it was waited for is made anew."""
    while True:
        with locked(path) as file:
            if _is_there(file, path):
                yield file
                return


def _is_there(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


def _read(file: IO[bytes]) -> dict[str, Any] | None:
    """The hold; None where there is none, or half of one, as after a power cut."""
    file.seek(0)
    try:
        told = json.loads(file.read())
        numbers = {name: float(told[name]) for name in ("since", "until", "lease_s")}
        return {**{name: str(told[name]) for name in ("run", "holder", "key")}, **numbers}
    except (ValueError, KeyError, TypeError):
        return None


def _write(file: IO[bytes], told: dict[str, Any]) -> None:
    file.truncate(0)
    file.write((json.dumps(told) + "\n").encode())
    file.flush()
