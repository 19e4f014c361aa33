"""The node as a service, with a dialer that the test drives."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import aiohttp
import msgspec
import pytest

from iop.link.messages import Config, End, Hello, NodeRuntimeConfig, ProviderHealth, Ready
from iop.node.service import Identity, NodeParts, NodeService
from tests.fakes.node_parts import FakeFactory, RecordingLink, direct_run, pool_run, runtime, turns


class IdleDialer:
    """A dialer that dials nobody."""

    def __init__(self, hello: Callable[[], Hello], service: NodeService) -> None:
        self.hello = hello
        self.service = service
        self.stopped = False
        self.state = "waiting"

    async def run_forever(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.stopped = True


class Bench:
    """A started service, its factory and a link that the Edge accepted."""

    def __init__(self) -> None:
        self.factory = FakeFactory()
        self.token: str | Exception = "secret"
        self.dialers: list[IdleDialer] = []
        self.link = RecordingLink()
        self.ready = ""
        self.service = NodeService(
            NodeParts(
                identity=Identity("n1", "i1", "0.1.0", "dev", "linux-x"),
                factory=self.factory,
                dialer=self._dialer,
                edge_address="127.0.0.1:1",
                read_token=self._read_token,
                status_listen=("127.0.0.1", 0),
                make_stop_token=lambda: None,
                request_stop=lambda: None,
            )
        )

    def _dialer(self, hello: Callable[[], Hello], service: NodeService) -> IdleDialer:
        self.dialers.append(IdleDialer(hello, service))
        return self.dialers[-1]

    def _read_token(self) -> str:
        if isinstance(self.token, Exception):
            raise self.token
        return self.token

    def connect(self, config: NodeRuntimeConfig | None = None, generation: int = 1) -> None:
        self.service.on_config(
            self.link, Config(epoch=1, generation=generation, dead_after=15.0, runtime=config or runtime())
        )

    async def status(self) -> dict[str, dict[str, object]]:
        address = self.ready.rpartition("status=")[2]
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/status") as answer:
            picture: dict[str, dict[str, object]] = json.loads(await answer.text())
            return picture

    async def begin(self, number: int) -> None:
        self.service.on_run(self.link, pool_run(number))
        self.service.on_body(self.link, number, b"{}", True)
        await turns()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """Start a service and stop it afterwards."""
    bench = Bench()
    bench.ready = await bench.service.start()
    yield bench
    await bench.service.stop()


async def test_ready_without_an_edge(bench: Bench) -> None:
    """The ready line comes with the real port while no Edge is there, and status says so."""
    assert bench.ready.startswith("ready node=n1 status=127.0.0.1:")
    link = (await bench.status())["link"]
    assert (link["connected"], link["state"]) == (False, "waiting")


async def test_config_is_acknowledged_with_what_is_in_force(bench: Bench) -> None:
    """Each pushed config is put in force and answered by `ready`; unchanged adapters are kept."""
    bench.connect()
    bench.connect(generation=2)
    ready = bench.link.of(Ready)
    assert [message.generation for message in ready if isinstance(message, Ready)] == [1, 2]
    first = ready[0]
    assert isinstance(first, Ready)
    assert {(info.name, info.max_concurrency) for info in first.adapters} == {("cli", 0), ("e1", 2)}
    assert first.providers == ("p1",)
    assert len(bench.factory.made) == 2
    await turns()
    assert ProviderHealth(provider_id="p1", up=True) in bench.link.sent


async def test_status_shows_slots_and_direct_work(bench: Bench) -> None:
    """GET /status tells adapters, providers with their slots, and direct work apart from them."""
    bench.connect()
    await bench.begin(1)
    bench.service.on_run(bench.link, direct_run(2))
    picture = await bench.status()
    assert picture["providers"][0]["in_flight"] == 1  # type: ignore[index]
    assert picture["direct"] == {"in_flight": 1}
    assert picture["running"] == 2
    assert picture["link"]["connected"] is True


async def test_hello_tells_who_and_what_runs(bench: Bench) -> None:
    """The hello carries identity and token, and after a lost link the work that runs on."""
    bench.connect(runtime(on_disconnect="finish"))
    await bench.begin(1)
    bench.service.on_lost("cut")
    hello = bench.dialers[0].hello()
    assert (hello.node_id, hello.instance_id, hello.token, hello.release_id) == ("n1", "i1", "secret", "dev")
    assert [work.request_id for work in hello.running] == ["r1"]
    bench.token = OSError("gone")
    assert bench.service.hello().token == "secret"
    bench.factory.last("e1").finish("r1")
    await turns()
    assert bench.service.hello().running == ()


async def test_drain_finishes_what_runs(bench: Bench) -> None:
    """A drain tells the Edge that it stops (in old words too), refuses new runs and waits for the running one."""
    bench.connect()
    await bench.begin(1)
    drain = asyncio.ensure_future(bench.service.drain())
    await turns()
    told = [message for message in bench.link.sent if isinstance(message, Ready | ProviderHealth)][-2:]
    assert isinstance(told[0], Ready)
    assert (told[0].stopping, told[0].generation, told[0].providers) == (True, 1, ("p1",))
    assert told[1] == ProviderHealth(provider_id="p1", up=False, reason="the node is stopping")
    bench.connect()
    assert [message.stopping for message in bench.link.of(Ready) if isinstance(message, Ready)] == [False, True, True]
    await bench.begin(2)
    assert not drain.done()
    bench.factory.last("e1").finish("r1")
    await drain
    assert [(end.run, end.outcome, end.failure) for end in bench.link.of(End) if isinstance(end, End)] == [
        (2, "failed", "stopping"),
        (1, "completed", None),
    ]


async def test_drain_cuts_at_its_deadline(bench: Bench) -> None:
    """What still runs at drain_timeout is cut, and its end is sent before the drain is over."""
    bench.connect(msgspec.structs.replace(runtime(), drain_timeout=0.01))
    await bench.begin(1)
    await bench.service.drain()
    assert bench.factory.last("e1").stopped == ["r1"]
    assert bench.link.of(End) == [End(run=1, outcome="failed", failure="reset", detail="the node is stopping")]


async def test_stop_frees_everything() -> None:
    """A stop without drain cuts the work, stops the dialer and closes all adapters."""
    bench = Bench()
    await bench.service.start()
    bench.connect()
    await bench.begin(1)
    await bench.service.stop()
    assert bench.dialers[0].stopped
    assert [adapter.closed for adapter in bench.factory.made] == [True, True]
    assert bench.factory.last("e1").stopped == ["r1"]


async def test_a_token_that_cannot_be_read_stops_the_start() -> None:
    """A missing token file is a start failure, not a silent hello without token."""
    bench = Bench()
    bench.token = OSError("no token file")
    with pytest.raises(OSError, match="no token file"):
        await bench.service.start()
    await bench.service.stop()
