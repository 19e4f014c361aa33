"""A service manager in memory: what was asked of it, and what runs."""

from collections.abc import Sequence
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services.contract import Running, Service


class FakeManager:
    """Runs nothing; services that it "starts" get the pid of a real process, so that their arguments can be read."""

    def __init__(self, pid: int = 1) -> None:
        self.pid = pid
        self.known: dict[str, Running] = {}
        self.calls: list[str] = []
        self.broken: set[str] = set()
        self.in_the_way: list[str] = []

    def running(self) -> dict[str, Running]:
        """What was started and not stopped."""
        return dict(self.known)

    def obstacles(self, wanted: Sequence[Service]) -> list[str]:
        """What `in_the_way` says."""
        return list(self.in_the_way)

    def ensure(self) -> None:
        """Noted."""
        self.calls.append("ensure")

    def stop(self, name: str) -> None:
        """Noted; the service is forgotten."""
        self.calls.append(f"stop {name}")
        self.known.pop(name, None)

    def start(self, service: Service, log: Path) -> Running:
        """Noted with the log's name; fails for names in `broken`."""
        self.calls.append(f"start {service.name}")
        if service.name in self.broken:
            raise ReleaseError(f"{service.name} does not stay up; see {log}")
        self.known[service.name] = Running(service.name, "running", self.pid)
        return self.known[service.name]

    def remove(self, name: str) -> None:
        """Like stop."""
        self.stop(name)

    def down(self) -> list[str]:
        """Stop all."""
        names = sorted(self.known)
        self.known.clear()
        return names
