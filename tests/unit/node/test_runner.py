"""Running work: one end per run, once the work has really ended."""

import asyncio
import logging
from typing import Literal

import msgspec
import pytest

from iop.adapters.contract import RunEnd
from iop.domain.effects import Outcome
from iop.link.messages import Cancel, End, RunningWork
from iop.node.gate import Gate
from iop.node.rack import Rack
from iop.node.runner import ADOPTED_FROM, Runner
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeAdapter, FakeFactory, RecordingLink, direct_run, pool_run, runtime, turns

Policy = Literal["cancel", "cancel_streams", "finish"]
CANCELLED = "cancelled"


class Bench:
    """A runner with recording ends on both sides."""

    def __init__(self, *, capacity: int = 2, on_disconnect: Policy = "cancel") -> None:
        self.tasks = TaskSet()
        self.factory = FakeFactory()
        self.rack = Rack(self.factory, self.tasks)
        self.gate = Gate()
        self.runner = Runner(self.rack, self.gate, self.tasks)
        self.link = RecordingLink()
        self.push(capacity=capacity, on_disconnect=on_disconnect)
        self.runner.attach(self.link)

    def push(self, *, capacity: int = 2, on_disconnect: Policy = "cancel") -> None:
        config = runtime(capacity=capacity, on_disconnect=on_disconnect)
        self.rack.apply(config)
        self.runner.configure(config)

    @property
    def engine(self) -> FakeAdapter:
        return self.factory.last("e1")

    async def begin(self, number: int, *, stream: bool = False) -> None:
        """Send a whole pool run."""
        self.runner.on_run(self.link, pool_run(number, stream=stream))
        self.runner.on_body(self.link, number, b"{}", end=True)
        await turns()

    def ends(self) -> list[tuple[int, str, str | None]]:
        return [(end.run, end.outcome, end.failure) for end in self.link.of(End) if isinstance(end, End)]

    def redial(self) -> tuple[RunningWork, ...]:
        """Lose the link, say hello again; returns what the hello told. Attach is the test's to do."""
        self.runner.detach()
        self.link = RecordingLink()
        return self.runner.reported()


async def test_each_run_leaves_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Ended or refused: whose it was and what became of it, never the words of the failure."""
    caplog.set_level(logging.INFO, logger="iop.node.runner")
    bench = Bench(capacity=1)
    await bench.begin(1, stream=True)
    await bench.begin(2)
    bench.engine.finish("r1", RunEnd(Outcome.FAILED, "status", "the prompt said"))
    await turns()
    refused, ended = (record.fields for record in caplog.records)  # type: ignore[attr-defined]
    assert (refused["request_id"], refused["outcome"], refused["reason"]) == ("r2", "refused", "busy")
    assert {name: ended[name] for name in ("request_id", "model", "stream", "provider_id", "adapter", "target")} == {
        "request_id": "r1", "model": "m", "stream": True, "provider_id": "p1", "adapter": "e1", "target": None,
    }  # fmt: skip
    assert (ended["outcome"], ended["reason"], ended["bytes_out"]) == ("failed", "status", 0)
    assert ended["total_ms"] >= 0
    assert "prompt" not in caplog.text + str(ended)


async def test_a_run_from_body_to_end() -> None:
    """The body is collected and credited, the adapter gets it whole, and one end follows the work."""
    bench = Bench()
    bench.runner.on_run(bench.link, pool_run(1))
    bench.runner.on_body(bench.link, 1, b'{"a"', end=False)
    await turns()
    assert bench.engine.requests == []
    bench.runner.on_body(bench.link, 1, b":1}", end=True)
    await turns()
    request = bench.engine.requests[0]
    assert (request.body, request.model, request.timeout, request.idle_timeout) == (b'{"a":1}', "m", 900.0, 300.0)
    assert bench.link.credit == [(1, 4), (1, 3)]
    assert bench.ends() == []
    bench.engine.finish("r1", RunEnd(Outcome.FAILED, "status"))
    await turns()
    assert bench.ends() == [(1, "failed", "status")]
    assert bench.gate.in_flight("p1") == 0
    assert bench.runner.running == 0


async def test_over_capacity_is_busy() -> None:
    """A run over the capacity is answered busy at once and reaches no engine."""
    bench = Bench(capacity=1)
    await bench.begin(1)
    await bench.begin(2)
    assert bench.ends() == [(2, "failed", "busy")]
    assert len(bench.engine.requests) == 1
    bench.engine.finish("r1")
    await turns()
    await bench.begin(3)
    assert bench.gate.in_flight("p1") == 1


async def test_a_direct_run_takes_no_slot() -> None:
    """Direct runs, to the CLI and (legacy) to an engine instance, pass a full provider and leave its count alone."""
    bench = Bench(capacity=1)
    await bench.begin(1)
    for number, adapter in ((2, "cli"), (3, "e1")):
        bench.runner.on_run(bench.link, direct_run(number, adapter=adapter))
        bench.runner.on_body(bench.link, number, b"{}", end=True)
    await turns()
    assert bench.ends() == []
    assert [request.request_id for request in bench.engine.requests] == ["r1", "d3"]
    assert bench.factory.last("cli").requests[0].target == "echo"
    assert bench.gate.in_flight("p1") == 1
    assert bench.runner.direct_running == 2


async def test_an_adapter_that_is_not_there() -> None:
    """A run for an unknown adapter, and a pool run without provider, fail so that the request may go elsewhere."""
    bench = Bench()
    bench.runner.on_run(bench.link, direct_run(1, adapter="nope"))
    bench.runner.on_run(bench.link, msgspec.structs.replace(pool_run(2), provider_id=None))
    assert bench.ends() == [(1, "failed", "unreachable"), (2, "failed", "unreachable")]
    assert bench.link.forgotten == [1, 2]


@pytest.mark.parametrize("policy", ["cancel", "cancel_streams", "finish"])
@pytest.mark.parametrize("stream", [False, True])
async def test_client_gone_follows_on_disconnect(policy: Policy, stream: bool) -> None:
    """Work that the policy stops ends as cancelled; other work runs on with its slot and ends by itself."""
    bench = Bench(on_disconnect=policy)
    await bench.begin(1, stream=stream)
    bench.runner.on_cancel(Cancel(run=1, why="client"))
    await turns()
    if policy == "cancel" or (policy == "cancel_streams" and stream):
        assert bench.engine.stopped == ["r1"]
        assert bench.ends() == [(1, CANCELLED, None)]
        return
    assert bench.ends() == []
    assert bench.gate.in_flight("p1") == 1
    await bench.engine.sinks[0].body(b"unread")
    bench.engine.finish("r1")
    await turns()
    assert bench.ends() == [(1, "completed", None)]
    assert (1, b"unread") not in bench.link.sent


async def test_a_limit_always_stops() -> None:
    """cancel{limit} stops work that on_disconnect lets finish, also after the client left; a repeat changes nothing."""
    bench = Bench(on_disconnect="finish")
    await bench.begin(1)
    for why in ("client", "limit", "limit", "client"):
        bench.runner.on_cancel(Cancel(run=1, why=why))
    await turns()
    bench.runner.on_cancel(Cancel(run=1, why="limit"))
    assert bench.engine.stopped == ["r1"]
    assert bench.ends() == [(1, CANCELLED, None)]


async def test_end_comes_after_the_work_has_stopped() -> None:
    """The slot is held and no end is sent while the adapter still stops."""
    bench = Bench()
    await bench.begin(1)
    bench.runner.on_cancel(Cancel(run=1, why="client"))
    assert bench.ends() == []
    assert bench.gate.in_flight("p1") == 1
    await turns()
    assert bench.ends() == [(1, CANCELLED, None)]


async def test_cancel_before_the_body_is_whole() -> None:
    """A run whose body never came ends as cancelled, holds no slot, and late pieces of it are ignored."""
    bench = Bench()
    bench.runner.on_run(bench.link, pool_run(1))
    bench.runner.on_cancel(Cancel(run=1, why="client"))
    bench.runner.on_body(bench.link, 1, b"{}", end=True)
    await turns()
    assert bench.ends() == [(1, CANCELLED, None)]
    assert bench.engine.requests == []
    assert bench.gate.in_flight("p1") == 0


async def test_cancel_before_the_task_has_begun() -> None:
    """A run that is cancelled in the turn its task was made still ends exactly once."""
    bench = Bench()
    bench.runner.on_run(bench.link, pool_run(1))
    bench.runner.on_body(bench.link, 1, b"{}", end=True)
    bench.runner.on_cancel(Cancel(run=1, why="client"))
    await turns()
    assert bench.ends() == [(1, CANCELLED, None)]
    assert bench.gate.in_flight("p1") == 0


async def test_an_adapter_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of an adapter is logged, ends its run as broken and frees the slot (field case B05)."""
    bench = Bench()
    await bench.begin(1)
    with caplog.at_level(logging.ERROR):
        bench.engine.fail("r1", RuntimeError("bug"))
        await turns()
    assert bench.ends() == [(1, "failed", "broken")]
    assert "run r1" in caplog.text
    assert bench.gate.in_flight("p1") == 0


async def test_lost_link_stops_what_on_disconnect_stops() -> None:
    """With `cancel`, a lost link stops the engine work; nothing is sent for it anywhere once it has ended."""
    bench = Bench()
    await bench.begin(1)
    old = bench.link
    bench.runner.detach()
    await turns()
    assert bench.engine.stopped == ["r1"]
    assert bench.runner.reported() == ()
    bench.runner.attach(RecordingLink())
    assert old.of(End) == []


async def test_work_that_outlives_a_link_is_reported_and_ends_on_the_new_one() -> None:
    """With `finish`, the next hello tells the work, its slot stays held, and its end goes to the new link."""
    bench = Bench(capacity=1, on_disconnect="finish")
    await bench.begin(1)
    told = bench.redial()
    assert told == (RunningWork(run=ADOPTED_FROM, request_id="r1", adapter="e1", provider_id="p1"),)
    bench.runner.attach(bench.link)
    await bench.begin(1)
    assert bench.ends() == [(1, "failed", "busy")]
    bench.engine.finish("r1")
    await turns()
    assert bench.ends()[1:] == [(ADOPTED_FROM, "completed", None)]
    assert bench.gate.in_flight("p1") == 0


async def test_reported_work_that_ends_before_the_link_is_accepted() -> None:
    """An end between hello and config is sent as soon as the link is accepted; a new hello drops it instead."""
    bench = Bench(on_disconnect="finish")
    await bench.begin(1)
    await bench.begin(2)
    assert len(bench.redial()) == 2
    bench.engine.finish("r1")
    await turns()
    assert [work.request_id for work in bench.runner.reported()] == ["r2"]
    bench.engine.finish("r2")
    await turns()
    bench.runner.attach(bench.link)
    assert bench.ends() == [(ADOPTED_FROM + 1, "completed", None)]
    bench.runner.attach(bench.link)
    assert len(bench.ends()) == 1


async def test_reported_work_can_be_cancelled() -> None:
    """The Edge can stop adopted work by the number that the hello gave it."""
    bench = Bench(on_disconnect="finish")
    await bench.begin(1)
    told = bench.redial()
    bench.runner.attach(bench.link)
    bench.runner.on_cancel(Cancel(run=told[0].run, why="limit"))
    await turns()
    assert bench.ends() == [(told[0].run, CANCELLED, None)]


async def test_draining_refuses_and_cutting_ends() -> None:
    """While draining new runs are told so; a cut fails the rest: `reset` without a status line, `broken` after it."""
    bench = Bench()
    await bench.begin(1)
    await bench.begin(2)
    await bench.engine.sinks[1].head(200, ())
    bench.runner.begin_drain()
    await bench.begin(3)
    assert bench.ends() == [(3, "failed", "stopping")]
    idle = asyncio.ensure_future(bench.runner.idle())
    await turns()
    assert not idle.done()
    bench.runner.cut_all("the node is stopping")
    await idle
    assert sorted(bench.ends()) == [(1, "failed", "reset"), (2, "failed", "broken"), (3, "failed", "stopping")]


async def test_a_config_push_leaves_running_work_alone() -> None:
    """A smaller capacity lets holders finish and refuses newcomers until there is room."""
    bench = Bench(capacity=2)
    await bench.begin(1)
    await bench.begin(2)
    bench.push(capacity=1)
    await turns()
    assert bench.factory.made[0].stopped == []
    await bench.begin(3)
    assert bench.ends() == [(3, "failed", "busy")]
    bench.factory.made[0].finish("r1")
    await turns()
    await bench.begin(4)
    assert bench.ends()[-1] == (4, "failed", "busy")
    bench.factory.made[0].finish("r2")
    await turns()
    await bench.begin(5)
    assert bench.gate.in_flight("p1") == 1
