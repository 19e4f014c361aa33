"""What a smoke run saw, as frozen records in JSON lines: workers append, the controller merges, the judge reads.

Nothing here decides anything. `at` is wall time in seconds since 1970 and only sorts the merged file; verdicts use the
Edge's own event numbers.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

#: the merged file of a run; a worker's own file is `history-<worker>.jsonl`
MERGED = "history.jsonl"

RoundKind = Literal["capacity", "order", "cli_beside", "left_queued", "left_streaming"]
Outcome = Literal["ok", "failed", "left"]


class Environment(msgspec.Struct, frozen=True, tag=True):
    """What the inventory declares: the measure of every verdict."""

    at: float
    env: str
    banner: str
    edge_id: str
    capacities: dict[str, int]  # provider id -> declared slots
    nodes: dict[str, tuple[str, ...]]  # node id -> its provider ids
    cli_nodes: tuple[str, ...]
    models: tuple[str, ...]
    smoke_model: str
    cli_model: str | None
    hosts: dict[str, str] = {}  # real hosts: name -> address; empty on loopback

    @property
    def capacity(self) -> int:
        """All declared slots."""
        return sum(self.capacities.values())


class Round(msgspec.Struct, frozen=True, tag=True):
    """One attempt at a burst. `seq_from` and `seq_to` bound its events: the newest before it and after it."""

    at: float
    round_id: str
    case: str
    kind: RoundKind
    max_tokens: int
    request_ids: tuple[str, ...]
    seq_from: int
    seq_to: int
    cli_id: str | None = None
    leaver: str | None = None


class Request(msgspec.Struct, frozen=True, tag=True):
    """One request as its client saw it. `error` says why it counts as failed; `round_id` is None outside of bursts."""

    at: float
    case: str
    round_id: str | None
    request_id: str
    endpoint: str
    stream: bool
    outcome: Outcome
    status: int
    error: str | None
    provider: str | None
    node: str | None
    queue_ms: int | None
    seconds: float
    text: str


class Snapshot(msgspec.Struct, frozen=True, tag=True):
    """The Edge's status JSON at one moment of a round."""

    at: float
    round_id: str
    status: dict[str, Any]


class Logged(msgspec.Struct, frozen=True, tag=True):
    """One event of the Edge's event log."""

    at: float
    round_id: str
    event: dict[str, Any]


class Engine(msgspec.Struct, frozen=True, tag=True):
    """A simulator's own counters before and after a round."""

    at: float
    round_id: str
    provider_id: str
    before: dict[str, int]
    after: dict[str, int]


class Seen(msgspec.Struct, frozen=True, tag=True):
    """A fact of a case without bursts, e.g. the models listed; `name` says how to judge it."""

    at: float
    case: str
    name: str
    data: dict[str, Any]


class Blocker(msgspec.Struct, frozen=True, tag=True):
    """Trouble outside of the suite that kept a case from being proved."""

    at: float
    case: str
    reason: str


Record = Environment | Round | Request | Snapshot | Logged | Engine | Seen | Blocker

_ENCODER = msgspec.json.Encoder()


class History:
    """The growing file of one worker. Each record is one write, so that a crash loses at most the last line."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._file = folder / f"history-{worker}.jsonl"

    def append(self, *records: Record) -> None:
        """Append records."""
        with self._file.open("ab", buffering=0) as file:
            file.write(b"".join(_ENCODER.encode(record) + b"\n" for record in records))


def read(path: Path) -> list[Record]:
    """Read a history file; a line that cannot be read becomes a `Blocker` that names it. Raises OSError."""
    decoder = msgspec.json.Decoder(Record)
    records: list[Record] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            records.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            records.append(Blocker(0.0, "history", f"{path.name}:{number} cannot be read: {error}"))
    return records


def merge(folder: Path) -> list[Record]:
    """Merge the workers' files into `history.jsonl`, remove them, and return all records in order of time."""
    parts = sorted(folder.glob("history-*.jsonl"))
    records = sorted((record for part in parts for record in read(part)), key=lambda record: record.at)
    write(folder / MERGED, records)
    for part in parts:
        part.unlink()
    return records


def write(path: Path, records: Iterable[Record]) -> None:
    """Write a whole history file."""
    path.write_bytes(b"".join(_ENCODER.encode(record) + b"\n" for record in records))


def now() -> float:
    """Wall time for `at`."""
    return time.time()
