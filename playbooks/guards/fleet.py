"""The hosts that a run holds: who it says it is, and letting go of them at its end, however that comes.

A run that is killed lets go of nothing: its next one takes over, and whoever else when its time is over.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WITHIN_S = 10.0  # how long letting go may hold a run's end up
RUN, HOLDER, KEY = "IOP_RUN", "IOP_RUN_HOLDER", "IOP_RUN_KEY"  # read by roles/iop


class Fleet:
    """Notes each hold that the helper tells of."""

    def __init__(self) -> None:
        self._held: dict[str, list[str]] = {}
        self._checkout = Path()

    def begin(self, run: str, checkout: Path) -> None:
        """Tell the tasks which run this is. Raises OSError where the build folder cannot be written."""
        self._checkout = checkout
        holder = f"{_user()}@{socket.gethostname()}:{checkout}"
        os.environ.update({RUN: run, HOLDER: holder, KEY: f"{holder} {own_key(checkout / 'build')}"})

    def note(self, name: str, told: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """What the helper told of this host, whose variables are `facts`: a hold, or its end."""
        if told.get("what") == "let_go":
            self._held.pop(name, None)
        elif told.get("what") == "hold":
            end = told["let_go"]
            here = facts.get("reached_by") == "local"
            program = [sys.executable, "-m", "iop_release"] if here else end["program"]
            self._held[name] = self._command(name, [*program, *end["arguments"]], facts, here=here)

    def let_go(self) -> None:
        """End them all at once; what takes longer than WITHIN_S goes on by itself. A host that is away keeps its."""
        path = str(self._checkout / "runtime")
        env = {**os.environ, "LC_ALL": "C", "SHELL": "/bin/sh", "PYTHONPATH": path}
        began = []
        while self._held:
            _, command = self._held.popitem()
            with contextlib.suppress(OSError):
                began.append(subprocess.Popen(command, env=env, start_new_session=True, **_QUIET))  # noqa: S603
        until = time.monotonic() + WITHIN_S
        for one in began:
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                one.wait(max(0.1, until - time.monotonic()))

    def _command(self, name: str, argv: list[str], facts: Mapping[str, Any], *, here: bool) -> list[str]:
        if here:
            return argv
        from iop.admin.ssh import Door

        config = facts.get("ssh_config")
        address = str(facts.get("address") or name)
        door = Door(
            name, address, facts.get("user"), facts.get("ssh_port"), self._checkout / str(config) if config else None
        )
        windows = facts.get("service_manager") == "windows_task"
        return [*door.argv("-T"), subprocess.list2cmdline(argv) if windows else shlex.join(argv)]


def own_key(build: Path) -> str:
    """What tells this checkout from another one of the same name on a machine of the same name: made once."""
    path = build / ".key"
    build.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), path.open("x", encoding="ascii") as file:
        file.write(secrets.token_hex(8))
    return path.read_text(encoding="ascii")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in containers
        return str(os.getuid())


_QUIET: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
