"""S04: what a node tells of its adapters' limits."""

from iop.link.messages import AdapterInfo, End
from iop.node.gate import Gate
from iop.node.rack import Rack
from iop.node.runner import Runner
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeFactory, RecordingLink, direct_run, pool_run, runtime, turns


async def test_s04_cli_is_unlimited_and_engines_keep_their_gate() -> None:
    """S04: the CLI reports max concurrency 0 and takes all there is; the engine reports its capacity and keeps it."""
    tasks, factory, link = TaskSet(), FakeFactory(), RecordingLink()
    rack = Rack(factory, tasks)
    runner = Runner(rack, Gate(), tasks)
    config = runtime(capacity=2)
    rack.apply(config)
    runner.configure(config)
    assert set(rack.infos()) == {
        AdapterInfo(name="cli", type="cli", max_concurrency=0),
        AdapterInfo(name="e1", type="openai_compat", max_concurrency=2),
    }
    for number in range(1, 101):
        runner.on_run(link, direct_run(number))
    assert link.of(End) == []
    for number in range(101, 104):
        runner.on_run(link, pool_run(number))
    assert [(end.run, end.failure) for end in link.of(End) if isinstance(end, End)] == [(103, "busy")]
    runner.cut_all("test is over")
    await turns()
    await tasks.close()
