"""The OpenSSH client: how it is called for a host.

One ssh for everything (Ansible uses the same one), so that keys, agents, jump hosts and known hosts are those of the
user's own configuration. Host keys are always verified.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from iop.config.inventory import Inventory

#: seconds until a host counts as not reachable
CONNECT_S = 5


@dataclass(frozen=True, slots=True)
class Door:
    """How ssh reaches one host; `config` is an OpenSSH client config, None = the user's own."""

    name: str
    address: str
    user: str | None = None
    port: int | None = None
    config: Path | None = None

    def argv(self, *options: str) -> list[str]:
        """The command of an ssh to this host, up to and with the destination; options are put before it."""
        fixed = {
            "BatchMode": "yes",  # never asks: nobody is there to answer
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": str(CONNECT_S),
            "ServerAliveInterval": "5",  # a host that is gone is noticed after 15 s
            "ServerAliveCountMax": "3",
            "ControlPath": "none",  # a connection of its own: a shared one may hang, and outlives its starter
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "LogLevel": "INFO",  # the reasons of failures are at this level
        }
        command = ["ssh"]
        command += ["-F", str(self.config)] if self.config else []
        for name, value in fixed.items():
            command += ["-o", f"{name}={value}"]
        command += ["-l", self.user] if self.user else []
        command += ["-p", str(self.port)] if self.port else []
        return [*command, *options, "--", self.address]

    @property
    def by_hand(self) -> str:
        """The command that a person types to connect."""
        config = f" -F {self.config}" if self.config else ""
        port = f" -p {self.port}" if self.port else ""
        return f"ssh{config}{port} {self.user}@{self.address}" if self.user else f"ssh{config}{port} {self.address}"


def door(inventory: Inventory, name: str) -> Door:
    """How ssh reaches a host of a remote environment. Raises `InventoryError` for an unknown name."""
    host = inventory.host(name)
    assert host.address is not None  # the caller asks for real hosts only
    return Door(name, host.address, host.user, host.ssh_port, inventory.ssh_config(name))


def environment() -> dict[str, str]:
    """The environment that ssh is started with: messages in English, a shell for its local command."""
    return {**os.environ, "LC_ALL": "C", "SHELL": "/bin/sh"}
