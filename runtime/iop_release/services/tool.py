"""Calling the system's own service tool (systemctl, launchctl, schtasks), and the refusals of sudo in words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from iop_release.errors import ReleaseError

BOOTSTRAP = "run ansible-playbook -i inventory/<environment> playbooks/bootstrap.yml, which may become root"
PATIENCE = 600.0  # seconds for one call; a stop that drains takes the longest


@dataclass(frozen=True)
class Done:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """What it said, stderr first."""
        return (self.err.strip() or self.out.strip())[-3000:]


def as_root() -> tuple[str, ...]:
    """What goes before a command that changes services: nothing for root, else sudo that never asks."""
    return () if not hasattr(os, "geteuid") or os.geteuid() == 0 else ("sudo", "-n")


def call(command: Sequence[str], *, timeout: float = PATIENCE) -> Done:
    """Run it without input and in English. Raises `ReleaseError` when it is missing, hangs, or sudo says no."""
    env = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env=env,
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is not on this host", "look at service_manager in the inventory") from error
    except subprocess.TimeoutExpired as error:
        raise ReleaseError(f"{' '.join(command)} did not end within {timeout:g} s") from error
    if command[0] == "sudo" and done.returncode != 0 and done.stderr.startswith("sudo:"):
        raise ReleaseError(f"this account may not run {' '.join(command[2:])}: {done.stderr.strip()}", BOOTSTRAP)
    return Done(done.returncode, done.stdout, done.stderr)
