"""S03: node-wide concurrency is never a gate."""

from iop.link.messages import End
from iop.node.gate import Gate
from iop.node.rack import Rack
from iop.node.runner import Runner
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeFactory, RecordingLink, direct_run, pool_run, runtime, turns


async def test_s03_runtime_concurrency_gates_nothing() -> None:
    """S03: with runtime concurrency 1, CLI and provider runs go on together; only the provider's capacity refuses."""
    tasks, factory, link = TaskSet(), FakeFactory(), RecordingLink()
    rack = Rack(factory, tasks)
    runner = Runner(rack, Gate(), tasks)
    config = runtime(capacity=3, concurrency=1)
    rack.apply(config)
    runner.configure(config)
    runner.attach(link)
    runs = [direct_run(number) for number in range(1, 6)] + [pool_run(number) for number in range(6, 10)]
    for run in runs:
        runner.on_run(link, run)
        runner.on_body(link, run.run, b"{}", end=True)
    await turns()
    assert len(factory.last("cli").requests) == 5
    assert len(factory.last("e1").requests) == 3
    assert [(end.run, end.failure) for end in link.of(End) if isinstance(end, End)] == [(9, "busy")]
    runner.cut_all("test is over")
    await runner.idle()
    await tasks.close()
