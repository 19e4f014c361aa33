"""What a smoke run saw, as frozen records in JSON lines: workers append, the controller merges, the judge reads.

Nothing here decides anything. `at` is wall time in seconds since 1970 and only sorts the merged file; verdicts use the
Edge's own event numbers.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

#: the merged file of a run; a worker's own file is `history-<worker>.jsonl`
MERGED = "history.jsonl"
#: the case of blockers that stand for lines that cannot be read
UNREADABLE = "history"

RoundKind = Literal[
    "capacity", "order", "cli_beside", "left_queued", "left_streaming", "drained", "killed", "cut", "line_full"
]
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
    command: str = ""  # how the run was started
    runner: str = ""  # what it ran on: versions of Python and pytest, the system

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
    node: str | None = None  # the node that was taken away


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
    code: str | None = None  # of an error that was told in the API's own form, in a body or in the stream
    retry_after: str | None = None


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


class Reported(msgspec.Struct, frozen=True, tag=True):
    """What pytest says of one test: passed, failed or skipped; `reason` tells why it was skipped."""

    at: float
    test: str
    outcome: str
    reason: str = ""


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The last record of a whole history: the run came to its end, and wrote this many records before this one."""

    at: float
    records: int


Record = Environment | Round | Request | Snapshot | Logged | Engine | Seen | Blocker | Reported | Finished

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
    """Read a history file; lines that cannot be read become one `Blocker` that names the first. Raises OSError."""
    decoder = msgspec.json.Decoder(Record)
    records: list[Record] = []
    unread: list[str] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            records.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            unread.append(f"{path.name}:{number} cannot be read: {error}")
    if unread:
        more = f" (and {len(unread) - 1} further lines)" if len(unread) > 1 else ""
        records.append(Blocker(0.0, UNREADABLE, unread[0] + more))
    return records


def merge(folder: Path) -> list[Record]:
    """Merge the workers' files into `history.jsonl`, remove them, and return all records in order of time."""
    parts = sorted(folder.glob("history-*.jsonl"))
    records = sorted((record for part in parts for record in read(part)), key=lambda record: record.at)
    records.append(Finished(now(), len(records)))
    write(folder / MERGED, records)
    for part in parts:
        part.unlink()
    return records


def cut_short(records: Sequence[Record]) -> str:
    """Why these cannot be all records of a run; empty when they are. Lines that cannot be read tell for themselves."""
    last = next((record for record in records if isinstance(record, Finished)), None)
    if last is None:
        return "the history has no end: the run was interrupted, or the file was cut off"
    here = sum(not (isinstance(record, Blocker) and record.case == UNREADABLE) for record in records) - 1
    return f"{here} of {last.records} records are in the history" if here < last.records else ""


def write(path: Path, records: Iterable[Record]) -> None:
    """Write a whole history file."""
    path.write_bytes(b"".join(_ENCODER.encode(record) + b"\n" for record in records))


def now() -> float:
    """Wall time for `at`."""
    return time.time()
