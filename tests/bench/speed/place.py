"""Where a peer is put: its ports, its engines, its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

KEY, MODEL = "sk-test", "fake-model"


@dataclass(frozen=True, slots=True)
class Command:
    """One process of a peer."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """`port` is what clients ask, `spare` are three more free ones. `capacities`: one per engine, None for no limit."""

    port: int
    spare: Sequence[int]
    engines: Sequence[str]
    capacities: Sequence[int] | None
    folder: Path

    def write(self, name: str, text: str) -> str:
        """Write a file of the peer; returns its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def limits(self) -> list[tuple[str, int | None]]:
        """host:port of each engine, and its capacity."""
        hosts = [one.split("://", 1)[1] for one in self.engines]
        capacities = [None] * len(hosts) if self.capacities is None else list(self.capacities)
        return list(zip(hosts, capacities, strict=True))
