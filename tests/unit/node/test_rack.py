"""The adapters in force."""

import msgspec

from iop.link.messages import AdapterInfo, NodeRuntimeConfig
from iop.node.rack import Rack
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeFactory, runtime


async def test_only_what_changed_is_built_anew() -> None:
    """A push with another endpoint rebuilds that engine alone; an identical push rebuilds nothing."""
    factory, tasks = FakeFactory(), TaskSet()
    rack = Rack(factory, tasks)
    rack.apply(runtime())
    rack.apply(runtime())
    assert [adapter.name for adapter in factory.made] == ["e1", "cli"]
    rack.apply(runtime(endpoint="http://127.0.0.1:2/v1"))
    await tasks.drained()
    assert [(adapter.name, adapter.closed) for adapter in factory.made] == [("e1", True), ("cli", False), ("e1", False)]


async def test_a_replaced_adapter_lives_as_long_as_its_work() -> None:
    """Work on an adapter that a push replaced goes on; the adapter is closed when its last run ends."""
    factory, tasks = FakeFactory(), TaskSet()
    rack = Rack(factory, tasks)
    rack.apply(runtime())
    mounted = rack.get("e1")
    assert mounted is not None
    rack.take(mounted)
    rack.apply(NodeRuntimeConfig(node_id="n1"))
    await tasks.drained()
    assert rack.get("e1") is None
    assert not factory.last("e1").closed
    rack.give(mounted)
    await tasks.drained()
    assert factory.last("e1").closed
    assert factory.last("cli").closed


async def test_an_adapter_that_cannot_be_built_is_told() -> None:
    """One broken adapter leaves the others in use, is named with its reason, and is tried again at the next push."""
    factory = FakeFactory()
    rack = Rack(factory, TaskSet())
    factory.broken["e1"] = OSError("key file is missing")
    rack.apply(runtime())
    assert rack.get("e1") is None
    assert rack.failures == {"e1": "key file is missing"}
    assert rack.infos() == (AdapterInfo(name="cli", type="cli", max_concurrency=0),)
    factory.broken.clear()
    rack.apply(runtime())
    assert rack.failures == {}
    assert {info.name for info in rack.infos()} == {"cli", "e1"}


async def test_close_closes_all() -> None:
    """Close leaves no adapter open; a disabled CLI is not built."""
    factory = FakeFactory()
    rack = Rack(factory, TaskSet())
    rack.apply(msgspec.structs.replace(runtime(), cli_enabled=False))
    await rack.close()
    assert [(adapter.name, adapter.closed) for adapter in factory.made] == [("e1", True)]
    assert rack.infos() == ()
