"""The dialer: hello, work, redial, refusals, bye."""

import asyncio
import logging
from dataclasses import dataclass, field

import pytest

from iop.edge.links import Links, RunSpec
from iop.link.backoff import Backoff
from iop.link.messages import Cancel, Config, End, Head, Ready, Run
from iop.node.dialer import Dialer
from iop.transport.link import LinkConnection
from iop.transport.tasks import TaskSet
from iop.transport.tls import client_context
from tests.fakes.authority import PAST, Authority
from tests.fakes.link_peers import FakeDirectory, Recorder, hello
from tests.fakes.until import until

SPEC = RunSpec(request_id="r1", adapter="e1", operation="responses", stream=False, body=b"question")


@dataclass
class Node:
    """A node that answers each run with its own body, once it has all of it."""

    heard: list[object] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict)

    def on_config(self, conn: LinkConnection, config: Config) -> None:
        self.heard.append(config)
        conn.send(Ready(generation=config.generation))

    def on_run(self, conn: LinkConnection, run: Run) -> None:
        self.heard.append(run)
        self.bodies[run.run] = b""

    def on_body(self, conn: LinkConnection, run: int, data: bytes, end: bool) -> None:
        conn.drained(run, len(data))
        self.bodies[run] += data
        if end:
            conn.send(Head(run=run, status=200))
            assert conn.offer_body(run, self.bodies[run], end=True) is None
            conn.send(End(run=run, outcome="completed"))

    def on_cancel(self, conn: LinkConnection, cancel: Cancel) -> None:
        self.heard.append(cancel)

    def on_going_away(self) -> None:
        self.heard.append("going_away")

    def on_lost(self, reason: str) -> None:
        self.heard.append(("lost", reason))


@pytest.fixture
async def tasks():
    """Background work of a test, ended with it."""
    tasks = TaskSet()
    yield tasks
    await tasks.close()


def dialer_to(address: tuple[str, int], node: Node, **fields) -> Dialer:
    """A dialer that waits 10 ms, then longer up to 40 ms, without jitter."""
    backoff = Backoff(first=0.01, cap=0.04, stable_after=60)
    tls = fields.pop("tls", None)
    said = hello(**fields)
    return Dialer(address=address, hello=lambda: said, handler=node, tls=tls, backoff=backoff, jitter=lambda: 0.999)


async def test_a_run_goes_through_a_dialled_link(tasks):
    """The dialer says hello, gets its config, takes a run with its body and answers it; then it says bye."""
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=10)
    node = Node()
    dialer = dialer_to(await links.listen("127.0.0.1", 0), node)
    running = tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: events.of("ready"))
    assert dialer.state == "connected"
    assert dialer.connection is not None
    ends: list[End] = []
    run = links.start("n1", SPEC, ends.append)
    head = await run.head()
    assert isinstance(head, Head)
    assert await run.read() == b"question"
    assert await run.read() is None
    assert ends == [End(run=run.run, outcome="completed")]
    await dialer.stop()
    await running
    assert dialer.state == "stopped"
    await until(lambda: events.of("lost") == [("lost", "n1", 1, "the node said bye")])
    await links.close(going_away=False)


async def test_it_dials_again_when_the_edge_comes_back(tasks, caplog):
    """An Edge that is away for many attempts costs one log line, and the node is back soon after it returns."""
    links = Links(directory=FakeDirectory(), events=Recorder(), dead_after=10)
    host, port = await links.listen("127.0.0.1", 0)
    node = Node()
    dialer = dialer_to((host, port), node)
    tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: dialer.connection)
    with caplog.at_level(logging.WARNING, logger="iop.node.dialer"):
        await links.close(going_away=True)
        await until(lambda: dialer.state == "waiting")
        attempts = []
        dialer._jitter = lambda: attempts.append(1) or 0.5
        await until(lambda: len(attempts) >= 4)
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert "going_away" in node.heard
    assert dialer._backoff._hurried  # its successor is expected
    events = Recorder()
    again = Links(directory=FakeDirectory(), events=events, dead_after=10)
    await again.listen(host, port)
    await until(lambda: events.of("ready"))
    assert len([entry for entry in node.heard if isinstance(entry, tuple)]) == 1
    await dialer.stop()
    await again.close(going_away=False)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"token": "wrong"}, "bad_token"),
        ({"node_id": "stranger"}, "unknown_node"),
        ({"protocol": 99}, "protocol_mismatch"),
    ],
)
async def test_a_refusal_means_slow_retries_and_one_line_at_each_end(tasks, caplog, fields, code):
    """Each refused attempt is counted at the Edge; the delay is the cap at once; each end logs it once."""
    links = Links(directory=FakeDirectory(), events=Recorder(), dead_after=10)
    node = Node()
    dialer = dialer_to(await links.listen("127.0.0.1", 0), node, **fields)
    slow: list[float] = []
    plain = dialer._backoff.slow
    dialer._backoff.slow = lambda jitter: slow.append(plain(jitter)) or slow[-1]
    with caplog.at_level(logging.WARNING):
        tasks.start(dialer.run_forever(), name="dialer")
        await until(lambda: len(slow) >= 3)
    assert dialer.state in {f"turned_away:{code}", "connecting"}
    assert slow[0] == pytest.approx(0.04, rel=0.01)
    assert [record.name for record in caplog.records] == ["iop.edge.links", "iop.node.dialer"]
    assert all(code in record.getMessage() for record in caplog.records)
    (entry,) = links.turned_away()
    assert (entry.code, entry.count >= 3) == (code, True)
    assert node.heard == []
    await dialer.stop()
    await links.close(going_away=False)


async def test_stop_does_not_wait_for_a_dial_that_hangs(tasks, monkeypatch):
    """Stopping while the connection is being made ends at once and leaves no socket."""
    dialling = asyncio.Event()

    async def hang(*args: object, **kwargs: object) -> None:
        dialling.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", hang)
    node = Node()
    dialer = dialer_to(("127.0.0.1", 1), node)
    running = tasks.start(dialer.run_forever(), name="dialer")
    await dialling.wait()
    await dialer.stop()
    async with asyncio.timeout(5):
        await running
    assert dialer.state == "stopped"
    assert node.heard == []


async def test_a_dial_that_succeeds_too_late_is_closed(tasks, monkeypatch):
    """When the timeout beats the connection by a hair, the late socket is closed and the Edge sees no hello."""
    links = Links(directory=FakeDirectory(), events=Recorder(), dead_after=10)
    address = await links.listen("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    plain = loop.create_connection
    late: list[LinkConnection] = []

    async def too_late(factory, *args: object) -> None:
        conn = factory()
        late.append(conn)
        if len(late) == 1:
            conn.close("timed out first")
        await plain(lambda: conn, *args)

    monkeypatch.setattr(loop, "create_connection", too_late)
    node = Node()
    dialer = dialer_to(address, node)
    tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: dialer.connection)
    assert len(late) == 2
    assert late[0].lost == "timed out first"
    await dialer.stop()
    await links.close(going_away=False)


async def test_over_tls_with_a_pinned_ca(tasks, tmp_path):
    """Hello, work and bye as over plain TCP."""
    authority = Authority(tmp_path)
    events = Recorder()
    links = Links(directory=FakeDirectory(), events=events, dead_after=10)
    dialer = dialer_to(await links.listen("127.0.0.1", 0, authority.server()), Node(), tls=authority.client)
    tasks.start(dialer.run_forever(), name="dialer")
    await until(lambda: events.of("ready"))
    run = links.start("n1", SPEC, lambda end: None)
    assert isinstance(await run.head(), Head)
    assert await run.read() == b"question"
    await dialer.stop()
    await until(lambda: events.of("lost") == [("lost", "n1", 1, "the node said bye")])
    await links.close(going_away=False)


@pytest.mark.parametrize(
    ("server", "client", "told"),
    [
        ("other CA", "tls", ("was not issued by the CA in ca_file", "does not trust this certificate")),
        ("wrong name", "tls", ("is not for 127.0.0.1", "does not trust this certificate")),
        ("expired", "tls", ("has expired", "does not trust this certificate")),
        ("plain", "tls", ("does it speak TLS there", "the peer speaks TLS here, this end does not")),
        ("good", "plain", ("it may want TLS (edge.ca_file)", "it speaks no TLS")),
        ("good", "no CA", ("gone.pem cannot be read", None)),
    ],
)
async def test_tls_trouble_is_one_line_at_each_end(tasks, tmp_path, caplog, server, client, told):
    """Which end is wrong, and what to look at, is told once, without a traceback; distrust is retried slowly."""
    authority = Authority(tmp_path)
    certificates = {
        "other CA": lambda: Authority(tmp_path, "other").server(),
        "wrong name": lambda: authority.server("s", "elsewhere"),
        "expired": lambda: authority.server("s", **PAST),
        "plain": lambda: None,
        "good": authority.server,
    }
    trust = {"tls": authority.client, "plain": None, "no CA": lambda: client_context(str(tmp_path / "gone.pem"))}
    links = Links(directory=FakeDirectory(), events=Recorder(), dead_after=10)
    dialer = dialer_to(await links.listen("127.0.0.1", 0, certificates[server]()), Node(), tls=trust[client])
    delays: list[str] = []
    for name in ("slow", "delay"):
        plain = getattr(dialer._backoff, name)
        setattr(dialer._backoff, name, lambda jitter, n=name, p=plain: delays.append(n) or p(jitter))
    with caplog.at_level(logging.WARNING):
        tasks.start(dialer.run_forever(), name="dialer")
        await until(lambda: len(delays) >= 3)
    at_the_node = [r.getMessage() for r in caplog.records if r.name == "iop.node.dialer"]
    at_the_edge = {r.getMessage().rpartition(": ")[2] for r in caplog.records if r.name.startswith("iop.transport")}
    assert len(at_the_node) == 1
    assert told[0] in at_the_node[0]
    assert len(at_the_edge) == (told[1] is not None)
    assert all(told[1] in line for line in at_the_edge)
    assert not any(record.exc_info for record in caplog.records)
    assert set(delays) == ({"delay"} if "plain" in (server, client) else {"slow"})
    await dialer.stop()
    await links.close(going_away=False)
