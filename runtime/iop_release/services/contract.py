"""What a service is, and what every service manager can do. One small class per system stands behind this."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from iop_release.errors import ReleaseError


@dataclass(frozen=True)
class Service:
    """One program to keep running. In `argv` and `env`, `{release}` stands for the folder of the wanted release."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    watch: tuple[str, ...] = ()  # files whose content the program reads only at its start
    port: int | None = None
    stop_wait_s: int = 40
    priority: int = 500  # started low to high, stopped high to low
    #: name -> host:port of sockets that outlive the program and reach it as LISTEN_FDS. Such a service is not stopped
    #: before a new start: `start` replaces what runs, and connections wait in the sockets meanwhile
    listeners: dict[str, str] = field(default_factory=dict)
    #: a new release alone is no reason to restart it: it goes on from the one that it was started from
    lasting: bool = False

    @staticmethod
    def load(data: dict[str, Any]) -> Service:
        """A service from JSON. Raises `ReleaseError` for unknown or missing keys."""
        try:
            ready = {**data, "argv": tuple(data["argv"]), "watch": tuple(data.get("watch", ()))}
            service = Service(**ready)
            for address in service.listeners.values():
                split_address(address)
            return service
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ReleaseError(f"not a service: {data!r} ({error})") from error

    def resolved(self, release: Path, release_id: str) -> Service:
        """The service with the release's folder and id filled in, and the hash of the files it reads at its start."""
        env = {key: value.replace("{release}", str(release)) for key, value in self.env.items()}
        env["IOP_RELEASE_ID"] = release_id
        if self.watch:
            env["IOP_CONFIG_SHA256"] = _sha256_of_files(self.watch)
        argv = tuple(part.replace("{release}", str(release)) for part in self.argv)
        return replace(self, argv=argv, env=env)

    @property
    def digest(self) -> str:
        """Hash of everything that makes the running program what it is; another digest asks for a restart."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Running:
    """What a service manager knows of one service. `state` is `running`, `stopped`, `failed` or `unknown`."""

    name: str
    state: str
    pid: int | None = None
    detail: str = ""


class ServiceManager(Protocol):
    """Keeps services running. All calls are idempotent; failures raise `ReleaseError` with the end of the log."""

    def obstacles(self, wanted: Sequence[Service]) -> list[str]:
        """What root has to do on this host before these services can run as this release wants; reads only."""

    def running(self) -> dict[str, Running]:
        """All services it knows, by name. Reads only, and works when the manager itself is not up."""

    def ensure(self) -> None:
        """Bring the manager up, after ending left-over processes of ours that it does not know."""

    def stop(self, name: str) -> None:
        """Stop a service and wait until it is gone. One that is not running is fine."""

    def start(self, service: Service, log: Path) -> Running:
        """Run this definition; return when the program has said that it is ready, or has stayed up for a second.

        One with `listeners` may be running: its program is replaced, its sockets stay, no connection is lost.
        """

    def remove(self, name: str) -> None:
        """Stop a service and forget it."""

    def down(self) -> list[str]:
        """Stop everything of ours and the manager itself; return what was ended, as text."""


def split_address(text: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as host and port. Raises ValueError when it is neither."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"not a host:port address: {text!r}")
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), int(port)


def stop_all(manager: ServiceManager) -> list[str]:
    """Stop every service that the manager knows; return those that ran, as text."""
    ended = []
    for name, one in sorted(manager.running().items()):
        manager.stop(name)
        if one.pid:
            ended.append(f"{name} (pid {one.pid})")
    return ended


def _sha256_of_files(paths: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        file = Path(path)
        digest.update(file.read_bytes() if file.is_file() else b"(missing)")
        digest.update(b"\0")
    return digest.hexdigest()
