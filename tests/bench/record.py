"""What a chaos run saw, as frozen records in JSON lines. Nothing here decides anything; the judge reads them.

`t` is seconds since the start of the run, by one clock.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

HISTORY = "history.jsonl"

#: answered: whole and right · error: an OpenAI error object, as an answer or as the stream's event · cut: the answer
#: broke off, visibly · refused: no answer at all, the connection was refused or ended · left: the client went away, as
#: was its part · unfinished: still nothing when the client's patience was over · wrong: anything else
Outcome = Literal["answered", "error", "cut", "refused", "left", "unfinished", "wrong"]


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The run: its seed, and what it is measured by. `slots`: those of each provider's engine; `recovery_s`: the
    longest that a provider may take to be ready again after its fault; `peaks`: whether the engines tell their peaks.
    """

    t: float
    seed: int
    minutes: float
    command: str
    lab: bool
    slots: dict[str, int]
    nodes: dict[str, str]  # node id -> its provider
    recovery_s: float


class Done(msgspec.Struct, frozen=True, tag=True):
    """A fault as it was: `began` to `ended` (healed), with what it hit as `provider` and `node` where it is one of
    those. `trouble` = it could not be done.
    """

    t: float
    number: int
    kind: str
    target: str
    began: float
    ended: float
    provider: str | None = None
    node: str | None = None
    trouble: str | None = None


class Answer(msgspec.Struct, frozen=True, tag=True):
    """One request as its client saw it. `code` of an error object; `why` in words for all but a good answer."""

    t: float
    request_id: str
    kind: str  # "chat", "chat stream", "responses", "responses stream"
    route: Literal["pool", "direct"]
    part: str  # what the client does: reads, slow, leaves
    began: float
    outcome: Outcome
    status: int = 0
    code: str | None = None
    provider: str | None = None
    why: str | None = None

    @property
    def ended(self) -> float:
        """When its client was done with it."""
        return self.t


class Life(msgspec.Struct, frozen=True, tag=True):
    """Another Edge process speaks from here on."""

    t: float
    instance: str


class Event(msgspec.Struct, frozen=True, tag=True):
    """One event of the Edge's log, of the Edge `instance`."""

    t: float
    instance: str
    event: dict[str, Any]


class Status(msgspec.Struct, frozen=True, tag=True):
    """The Edge's status JSON."""

    t: float
    status: dict[str, Any]


class Offered(msgspec.Struct, frozen=True, tag=True):
    """A request that went to an engine, seen on its way there; `mode` is how the forwarder treated it."""

    t: float
    provider: str
    request_id: str
    mode: str


class Engine(msgspec.Struct, frozen=True, tag=True):
    """An engine's own counters; `life` counts its processes. `final`: at the end of the run."""

    t: float
    provider: str
    life: int
    stats: dict[str, int]
    final: bool = False


class Trouble(msgspec.Struct, frozen=True, tag=True):
    """Something that the run itself saw and that must not be."""

    t: float
    text: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The clients are done, and the end was looked at."""

    t: float


Record = Begun | Done | Answer | Life | Event | Status | Offered | Engine | Trouble | Ended

_ENCODER = msgspec.json.Encoder()


class History:
    """The growing record of a run: in memory for the judge, and in a file as it comes."""

    def __init__(self, path: Path) -> None:
        self.records: list[Record] = []
        self._file = path.open("wb", buffering=1 << 16)

    def add(self, *records: Record) -> None:
        """Append records."""
        for record in records:
            self.records.append(record)
            self._file.write(_ENCODER.encode(record) + b"\n")

    def close(self) -> None:
        """Write out what is left."""
        self._file.close()


def read(path: Path) -> list[Record]:
    """Read a history again. Raises OSError and ValueError."""
    decoder = msgspec.json.Decoder(Record)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]
