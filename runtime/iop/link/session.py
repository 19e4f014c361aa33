"""One end of a link, without I/O: bytes and the time in, messages, body pieces and bytes to send out.

    OPENING  nothing but the first message counts: `hello` at the Edge, `config` or `turned_away` at the node
    OPEN     work, credit, pings

A wrong frame raises WireError; the session is of no use after that and its connection must be closed. The
books of pings and of credit are kept here; the caller sees `pong` and `credit` only to wake who waits for them.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal

from iop.link import messages as m
from iop.link.bounds import bounded
from iop.link.codec import Codec
from iop.link.errors import WireError
from iop.link.flow import Flows
from iop.link.frames import MAX_CONTROL, MAX_PIECE, BodyFrame, FrameReader, body_frame, control_frame
from iop.link.liveness import Liveness, Verdict

#: what each end may send
FROM_EDGE = frozenset({m.TurnedAway, m.Config, m.Run, m.Cancel, m.Credit, m.Ping, m.Pong, m.GoingAway})
FROM_NODE = frozenset({m.Hello, m.Ready, m.ProviderHealth, m.Head, m.End, m.Credit, m.Ping, m.Pong, m.Bye})

#: the largest run number: it is a u32 in a body frame
MAX_RUN = 2**32 - 1

#: statuses that an engine's answer can have: three digits, and no interim answer
FINAL = range(200, 1000)

Role = Literal["edge", "node"]


class SessionState(StrEnum):
    """Where a session stands; closing belongs to the connection."""

    OPENING = "opening"
    OPEN = "open"


Event = m.Message | BodyFrame


class Session:
    """The protocol state of one connection at one end.

    `open_within` (seconds) bounds the wait for the first message, `dead_after` (seconds) the silence after it.
    """

    def __init__(self, role: Role, *, dead_after: float, open_within: float, now: float) -> None:
        self.state = SessionState.OPENING
        self.flows = Flows()
        self.ponged = 0
        self._role = role
        self._accepts: frozenset[type] = FROM_NODE if role == "edge" else FROM_EDGE
        self._books: dict[type, Callable[[Any], bool]] = {
            m.Ping: self._pinged_by_peer,
            m.Pong: self._pong,
            m.Credit: self._credit,
            m.Config: self._config,
            m.Run: self._run,
            m.Head: self._head,
            m.End: self._end,
        }
        self._codec = Codec()
        # a node trusts the Edge it dialled: `config` may be as large as any message
        self._frames = FrameReader() if role == "edge" else FrameReader(MAX_CONTROL)
        self._liveness = Liveness(dead_after, now)
        self._open_within = open_within
        self._opening = 0.0
        self._pinged = 0
        self._replies: list[bytes] = []

    @property
    def tick_interval(self) -> float:
        """Seconds between two calls of `tick`."""
        return self._liveness.interval

    def retime(self, dead_after: float) -> None:
        """Use another `dead_after` (seconds) from now on."""
        self._liveness.retime(dead_after)

    def feed(self, data: bytes) -> None:
        """Take received bytes; `next_event` gives what they mean."""
        self._liveness.heard()
        self._frames.feed(data)

    def next_event(self) -> Event | None:
        """The next message or body piece, or None when more bytes are needed. Raises WireError."""
        while (frame := self._frames.next_frame()) is not None:
            if isinstance(frame, BodyFrame):
                flow = self.flows.get(frame.run)
                if flow is not None:
                    flow.receive(len(frame.data))
                    return frame
                if self.state is SessionState.OPENING:
                    raise WireError("a body frame before the first message")
                # the run ended here while this piece was under way: nobody waits for it
                continue
            message = self._codec.decode(frame.payload)
            self._check(message)
            if self._role == "edge":
                message = bounded(message)
            # keep the books; some of it the caller need not see
            note = self._books.get(type(message))
            if note is None or note(message):
                return message
        return None

    def replies(self) -> bytes:
        """Frames this session owes its peer (pongs); empty when none."""
        if not self._replies:
            return b""
        data = b"".join(self._replies)
        self._replies.clear()
        return data

    def send(self, message: m.Message) -> bytes:
        """The frame of `message`. A `run` opens its windows, an `end` closes them. Raises WireError if too large."""
        frame = control_frame(self._codec.encode(message))
        if isinstance(message, m.Run):
            self.flows.open(message.run)
        elif isinstance(message, m.End):
            self.flows.close(message.run)
        return frame

    def send_piece(self, run: int, data: bytes | memoryview, *, end: bool) -> tuple[bytes, int] | None:
        """The next frame of a body and how many bytes of `data` it takes, or None when the run has no credit.

        Raises KeyError when the run is over. The END flag goes with the last byte.
        """
        flow = self.flows.get(run)
        if flow is None:
            raise KeyError(run)
        count = size = len(data)
        if count > MAX_PIECE or count > flow.available:
            count = min(MAX_PIECE, flow.available)
            data = data[:count]
        last = end and count == size
        if not count and not last:
            return None
        flow.spend(count)
        return body_frame(run, data, end=last), count

    def drained(self, run: int, count: int) -> bytes:
        """The reader of `run` took `count` bytes: the frame that grants credit, or nothing to send yet."""
        flow = self.flows.get(run)
        grant = flow.drain(count) if flow is not None and count else 0
        return self.send(m.Credit(run=run, bytes=grant)) if grant else b""

    def ping(self) -> tuple[int, bytes]:
        """A ping's number and frame; it is answered when `ponged` has reached the number."""
        self._pinged += 1
        return self._pinged, self.send(m.Ping(n=self._pinged))

    def tick(self, now: float) -> bytes:
        """Once each `tick_interval`: what to send now. Raises WireError with the reason when the peer is dead."""
        if self.state is SessionState.OPENING:
            self._opening += self._liveness.elapsed(now)
            if self._opening >= self._open_within:
                raise WireError(f"no {'hello' if self._role == 'edge' else 'answer'} within {self._open_within:g} s")
            return b""
        match self._liveness.tick(now):
            case Verdict.DEAD:
                raise WireError("the peer is silent")
            case Verdict.PING:
                return self.ping()[1]
            case Verdict.WELL:
                return b""

    def _check(self, message: m.Message) -> None:
        if type(message) not in self._accepts:
            raise WireError(f"a {type(message).__name__} does not come from this side")
        if self.state is SessionState.OPENING:
            first = (m.Hello,) if self._role == "edge" else (m.Config, m.TurnedAway)
            if not isinstance(message, first):
                raise WireError(f"a {type(message).__name__} as the first message")
            self.state = SessionState.OPEN
            self._frames.max_control = MAX_CONTROL
        elif isinstance(message, m.Hello):
            raise WireError("a second hello")

    # the books: what each message changes in them; True when the caller shall see the message

    def _pinged_by_peer(self, ping: m.Ping) -> bool:
        self._replies.append(self.send(m.Pong(n=ping.n)))
        return False

    def _pong(self, pong: m.Pong) -> bool:
        if not self.ponged < pong.n <= self._pinged:
            raise WireError(f"a pong {pong.n} where {self._pinged} pings were sent and {self.ponged} answered")
        self.ponged = pong.n
        self._liveness.answered()
        return True

    def _credit(self, credit: m.Credit) -> bool:
        flow = self.flows.get(credit.run)
        if flow is not None:
            flow.grant(credit.bytes)
        return flow is not None

    def _config(self, config: m.Config) -> bool:
        if not config.dead_after > 0:
            raise WireError(f"a dead_after of {config.dead_after}")
        self.retime(config.dead_after)
        return True

    def _run(self, run: m.Run) -> bool:
        if not 0 < run.run <= MAX_RUN:
            raise WireError(f"{run.run} is no run number")
        self.flows.open(run.run)
        return True

    def _head(self, head: m.Head) -> bool:
        if head.status not in FINAL:
            raise WireError(f"{head.status} is no status of a final answer")
        return True

    def _end(self, end: m.End) -> bool:
        self.flows.close(end.run)
        return True
