"""Field case B47 on the node: a cancel at any moment leaves one end, no slot and no task."""

import gc
import itertools
import logging
from typing import Literal

import pytest

from iop.link.messages import Cancel, End
from iop.node.gate import Gate
from iop.node.rack import Rack
from iop.node.runner import Runner
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeAdapter, FakeFactory, RecordingLink, pool_run, runtime, turns

Why = Literal["client", "limit"]
MOMENTS = range(7)  # turns of the loop: from before the task's first step to after its last


def _finish(adapter: FakeAdapter, request_id: str) -> None:
    future = adapter._ends.get(request_id)
    if future is not None and not future.done():
        adapter.finish(request_id)


@pytest.mark.parametrize("why", ["client", "limit"])
@pytest.mark.parametrize("policy", ["cancel", "cancel_streams", "finish"])
async def test_b47_every_interleaving_of_cancel_end_and_loss(
    why: Why, policy: Literal["cancel", "cancel_streams", "finish"], caplog: pytest.LogCaptureFixture
) -> None:
    """Field case B47: cancel, end of the work and loss of the link in any order end each run once and free its slot."""
    caplog.set_level(logging.INFO, "iop")
    tasks, factory, gate = TaskSet(), FakeFactory(), Gate()
    rack = Rack(factory, tasks)
    runner = Runner(rack, gate, tasks)
    config = runtime(capacity=1, on_disconnect=policy)
    rack.apply(config)
    runner.configure(config)
    adapter = factory.last("e1")
    for number, (cancel_at, finish_at, lose_at) in enumerate(itertools.product(MOMENTS, MOMENTS, MOMENTS), start=1):
        link, loses = RecordingLink(), number % 3 == 0
        runner.attach(link)
        runner.on_run(link, pool_run(number, stream=bool(number % 2)))
        assert gate.in_flight("p1") == 1, "the slot of the run before was not freed"
        runner.on_body(link, number, b"{}", end=True)
        for turn in MOMENTS:
            if turn == cancel_at:
                runner.on_cancel(Cancel(run=number, why=why))
            if turn == finish_at:
                _finish(adapter, f"r{number}")
            if turn == lose_at and loses:
                runner.detach()
            await turns(1)
        _finish(adapter, f"r{number}")
        await turns()
        ends = len(link.of(End))
        assert ends <= 1 if loses else ends == 1
        assert (runner.running, gate.in_flight("p1"), len(tasks)) == (0, 0, 0)
        runner.detach()
        runner.reported()
    gc.collect()
    assert {record.getMessage() for record in caplog.records} == {"run"}, "nothing but the line of each run"
    assert len(caplog.records) == len(MOMENTS) ** 3
