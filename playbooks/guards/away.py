"""Hosts that ssh lost in a run, in words and with the next command: Ansible itself tells ssh's last line only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Away:
    """Notes each host once, with what became of it first."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def note(self, name: str, said: str, facts: Mapping[str, Any]) -> None:
        """A connection to this host failed, and ssh said this; `facts` are its variables."""
        if name not in self._found:
            self._found[name] = _text(name, said, facts)

    def text(self) -> str:
        """A paragraph for each host; empty when none was lost."""
        return "\n".join(self._found.values())


def _text(name: str, said: str, facts: Mapping[str, Any]) -> str:
    try:
        from iop.admin.ssh import Door
        from iop.admin.ssh_trouble import trouble
    except ImportError:  # Ansible from elsewhere, without the packages of this project
        return f"{name} cannot be reached: {said}\n  next: bring it back, then run this again; it repairs what it finds"
    config = facts.get("ssh_config")
    checkout = Path(str(facts.get("inventory_dir", "."))).parent.parent
    door = Door(
        name,
        str(facts.get("address") or facts.get("ansible_host") or name),
        facts.get("user"),
        facts.get("ssh_port"),
        checkout / str(config) if config else None,
    )
    found = trouble(door, said)
    return f"{found.message}\n  next: {found.step}. Then run this again: it repairs what it finds"
