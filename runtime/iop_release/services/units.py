"""Texts of systemd units: one service, the Edge's sockets, and the line that lets an account restart them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services import names
from iop_release.services.templates_of import filled

SYSTEMCTL = "/usr/bin/systemctl"
_HOMES = ("/home", "/root", "/run/user")


@dataclass(frozen=True)
class Unit:
    """One service as systemd runs it.

    `agents_home`: the home that its CLI agents need, which hardening must leave; `notifies`: it says when it is ready,
    and lives, by systemd's protocol.
    """

    description: str
    kind: str
    command: tuple[str, ...]
    root: str
    user: str
    group: str
    writable: tuple[str, ...]
    stop_s: int = 60
    condition: str | None = None
    credentials: tuple[tuple[str, str], ...] = ()  # (name, file)
    agents_home: str | None = None
    sockets: tuple[str, ...] = ()
    notifies: bool = True

    def text(self) -> str:
        """The unit's text. Raises `ReleaseError` for values that a unit cannot hold."""
        values = {
            "description": rest(self.description),
            "unit": "".join(f"{line}\n" for line in self._unit_lines()),
            "user": rest(self.user),
            "group": rest(self.group),
            "root": rest(self.root),
            "command": " ".join(word(part, dollar=True) for part in self.command),
            "stop_s": str(self.stop_s),
            "service": "".join(f"{line}\n" for line in self._service_lines()),
        }
        return filled("linux.service", values)

    def _unit_lines(self) -> list[str]:
        lines = [f"ConditionPathExists={rest(self.condition)}"] if self.condition else []
        if self.sockets:
            lines += [f"{key}={' '.join(self.sockets)}" for key in ("Requires", "After")]
        return lines

    def _service_lines(self) -> list[str]:
        told = ["Type=notify", "NotifyAccess=main", "WatchdogSec=30"] if self.notifies else ["Type=exec"]
        sockets = [f"Sockets={' '.join(self.sockets)}"] if self.sockets else []
        credentials = [f"LoadCredential={_unbroken(name)}:{_unbroken(file)}" for name, file in self.credentials]
        return [*told, *sockets, *credentials, *self._files(), *self._confined()]

    def _files(self) -> list[str]:
        writable = [*self.writable, *([self.agents_home] if self.agents_home else [])]
        lines = [f"ReadWritePaths={' '.join(word(path) for path in writable)}"]
        if self.agents_home:
            lines += [f"Environment=HOME={word(self.agents_home)}"]
        at_home = any(_is_below(path, _HOMES) for path in (self.root, *writable))
        return [*lines, f"ProtectHome={'read-only' if at_home else 'true'}"]

    def _confined(self) -> list[str]:
        """What only programs of ours bear: agents bring a sandbox of their own, engines use the host's devices."""
        if self.kind == "engine":
            return ["RestrictNamespaces=true", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK"]
        devices = ["PrivateDevices=true"]
        if self.agents_home:
            return [*devices, "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK"]
        return [
            *devices,
            "ProtectProc=invisible",
            "RestrictNamespaces=true",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "SystemCallFilter=@system-service",
            "SystemCallFilter=~@privileged @resources",
            "SystemCallErrorNumber=EPERM",
        ]


def socket(listener: str, address: str, launcher: str) -> str:
    """The unit of one of the Edge's listeners (`openai`, `nodes` or `admin`)."""
    description = f"iop edge, listener {listener}"
    values = {"description": description, "launcher": rest(launcher), "address": rest(address), "name": listener}
    return filled("linux.socket", values)


def stop_targets(unit: str, sockets: Sequence[str]) -> list[str]:
    """What one `systemctl stop` names: a socket that is left alone would start its service again."""
    return [*(sockets if unit == names.EDGE else ()), f"{unit}.service"]


def sudoers(user: str, units: Sequence[str], sockets: Sequence[str]) -> str:
    """The rules that let this account start, stop and restart these services, and nothing else, without a password."""
    allowed = []
    for unit in units:
        allowed += [f"{SYSTEMCTL} {verb} {unit}.service" for verb in ("start", "restart", "reset-failed")]
        allowed += [f"{SYSTEMCTL} stop {' '.join(stop_targets(unit, sockets))}"]
    if names.EDGE in units:
        allowed += [f"{SYSTEMCTL} reset-failed {one}" for one in sockets]
    return sudoers_text(user, allowed)


def sudoers_text(user: str, commands: Sequence[str]) -> str:
    """A sudoers file with exactly these commands. Raises `ReleaseError` for an account name that is none."""
    if not user or not all(char.isalnum() or char in "._-" for char in user):
        raise ReleaseError(f"not the name of an account: {user!r}")
    head = f"# iop: services that {user} may control; written by playbooks/bootstrap.yml\n"
    escaped = [command.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:") for command in commands]
    return head + "".join(f"{user} ALL=(root) NOPASSWD: {command}\n" for command in escaped)


def word(text: str, *, dollar: bool = False) -> str:
    """One word of a list in a unit: quoted where needed, with specifiers (and variables, in commands) switched off."""
    plain = rest(text)
    if dollar:
        plain = plain.replace("$", "$$")
    if plain and not any(char.isspace() or char in "\"'\\;" for char in plain):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def rest(text: str) -> str:
    """A value that takes the rest of its line."""
    if any(char in text for char in "\n\r\0") or text != text.strip() or text.endswith("\\"):
        raise ReleaseError(f"a systemd unit cannot hold this text: {text!r}", "choose a plainer path")
    return text.replace("%", "%%")


def _unbroken(text: str) -> str:
    """No blanks: systemd 257 separates what it hands to its starter by them, and such a service does not start."""
    if any(char.isspace() for char in text):
        raise ReleaseError(f"systemd cannot load a credential from this path: {text!r}", "choose one without blanks")
    return rest(text)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(folder == path or Path(folder) in Path(path).parents for folder in folders)
