"""An engine that stops: its streams fall silent with their sockets open, and new connections are refused (as vLLM)."""

import asyncio
from pathlib import Path

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import Engine, Stack, answer_ok, chat, stack


class Stopping:
    """An engine that begins each stream with one event and then says nothing until `wake`."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()

    async def serve(self, exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(event({"n": 1})))
        await self.wake.wait()
        await exchange.send(chunk(event("[DONE]")) + LAST_CHUNK)


class Slow:
    """An engine that answers in one piece, when told."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()

    async def serve(self, exchange: Exchange) -> None:
        await self.answer.wait()
        await exchange.send(response())


async def events(s: Stack) -> RawClient:
    """A reader of all events so far and to come."""
    client = await s.connect("admin")
    await client.send(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: 0\r\n\r\n")
    return client


async def test_an_engine_that_stopped_is_suspect_and_its_waiters_go_elsewhere(tmp_path: Path) -> None:
    """It gets nothing more while silent, a waiter takes the other provider's next slot, and a byte brings it back."""
    stopping, slow = Stopping(), Slow()
    async with stack(tmp_path, Engine(stopping.serve), Engine(slow.serve), wedge_after="200ms") as s:
        feed = await events(s)
        first = await s.open(chat("first", stream=True))
        await first.until(b"data:")
        s.up.stop_listening()
        other = await s.open(chat("other"))
        await s.until(lambda status: status["totals"]["in_flight"] == 2)
        waiter = await s.open(chat("waiter"))
        status = await s.until(lambda status: status["provider_snapshots"][0]["state"] == "suspect")
        reason = status["provider_snapshots"][0]["reason"]
        assert reason.startswith("no byte and no end for 0.")
        assert reason.endswith("s, full and with requests waiting; 1 silent stream")
        assert status["provider_snapshots"][1]["state"] == "ready"
        assert (status["totals"]["in_flight"], status["totals"]["queued"]) == (2, 1)
        slow.answer.set()
        assert (await other.answer()).status == 200
        assert (await waiter.answer()).status == 200
        assert len(s.ups[1].requests) == 2
        assert s.status()["provider_snapshots"][0]["state"] == "suspect"  # nobody waits, and it is silent still
        stopping.wake.set()
        assert (await first.answer()).status == 200
        await s.until(lambda status: status["provider_snapshots"][0]["state"] == "ready")
        told = await feed.until(b'"reason":"suspect: no byte')
        assert b'"provider_id":"p1"' in told


async def test_the_line_waits_for_an_engine_that_comes_back(tmp_path: Path) -> None:
    """With nobody else to go to, a waiter stays, without an error, and is served when the slot turns over."""
    stopping = Stopping()
    async with stack(tmp_path, Engine(stopping.serve), wedge_after="50ms", queue={"offline_grace": "1ms"}) as s:
        first = await s.open(chat("first", stream=True))
        await first.until(b"data:")
        waiter = await s.open(chat("waiter", stream=True))
        await s.until(lambda status: status["provider_snapshots"][0]["state"] == "suspect")
        assert s.load() == (1, 1)
        stopping.wake.set()
        assert [(await client.answer()).status for client in (first, waiter)] == [200, 200]
        assert s.totals("expired", "failed") == (0, 0)


async def test_a_client_that_does_not_read_makes_no_engine_suspect(tmp_path: Path) -> None:
    """Bytes that wait for the client are no silence of the engine: full and with a waiter, nothing makes it suspect."""

    async def flood(exchange: Exchange) -> None:
        if exchange.json["messages"][0]["content"] == "next":
            await answer_ok(exchange)
            return
        await exchange.send(stream_head())
        while not exchange.peer_left.is_set():
            await exchange.send(chunk(event("x" * 60_000)))

    async with stack(tmp_path, Engine(flood)) as s:
        stalled = await s.connect(receive_buffer=4096)
        stalled.reader._transport.pause_reading()
        await stalled.post("/v1/chat/completions", chat("stalled", stream=True))
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiter = await s.open(chat("next"))
        pool = s.edge._core.door._admission._pool
        provider = pool.fleet.providers["p1"]
        await s.until(lambda status: status["totals"]["queued"] == 1 and pool.wedge_due(provider) is None)
        assert provider.silence.held_up
        stalled.reset()
        assert (await waiter.answer()).status == 200
        assert s.totals("cancelled", "completed") == (1, 1)
