"""What becomes of running work whose client is gone: `on_disconnect`, end to end."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.stack import CHAT, Engine, answer_ok, chat, stack
from tests.fakes.until import until

Policy = Literal["cancel", "cancel_streams", "finish"]
PIECE = chunk(event({"choices": [{"index": 0, "delta": {"content": "x" * 60_000}}]}))


class Patient:
    """An engine that answers when told to, and notes whether it could go to the end."""

    def __init__(self, pieces: int = 40) -> None:
        self.pieces = pieces
        self.go_on = asyncio.Event()
        self.begun = 0
        self.to_the_end = 0

    async def serve(self, exchange: Exchange) -> None:
        is_stream = exchange.json.get("stream")
        if is_stream:
            await exchange.send(stream_head() + PIECE)
        self.begun += 1
        waits = [asyncio.ensure_future(event.wait()) for event in (self.go_on, exchange.peer_left)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        if exchange.peer_left.is_set():
            return
        # more than a link's window and the sockets on the way hold, so that somebody must read it to the end
        await exchange.send(PIECE * self.pieces + chunk(event("[DONE]")) + LAST_CHUNK if is_stream else response())
        self.to_the_end += not exchange.peer_left.is_set()


@pytest.mark.parametrize(
    ("policy", "stream", "finishes"),
    [
        ("cancel", False, False),
        ("cancel", True, False),
        ("cancel_streams", True, False),
        ("cancel_streams", False, True),
        ("finish", False, True),
        ("finish", True, True),
    ],
)
async def test_a_client_that_leaves(tmp_path: Path, policy: Policy, stream: bool, finishes: bool) -> None:
    """The engine connection is closed or the work runs to its end, and the slot is held exactly until then."""
    engine = Patient()
    async with stack(tmp_path, Engine(engine.serve, on_disconnect=policy)) as s:
        client = await s.open(chat(stream=stream))
        await until(lambda: engine.begun)
        if stream:
            await client.until(b"data:")
        s.up.script = answer_ok
        waiter = await s.open()
        await s.until(lambda status: status["totals"]["queued"] == 1)
        client.close()
        if finishes:
            # the client is gone for the Edge as soon as a later request of another client has been dealt with
            for _ in range(3):
                assert (await s.get("/v1/models")).status == 200
            assert s.load() == (1, 1)
            assert not s.up.requests[0].peer_left.is_set()
            assert s.totals("cancelled") == (0,)
            engine.go_on.set()
        assert (await waiter.answer()).status == 200
        await s.idle()
        assert engine.to_the_end == int(finishes)
        assert s.up.hwm == 1
        assert s.totals("cancelled", "completed", "failed") == (1, 1, 0)


@pytest.mark.parametrize("policy", ["cancel", "finish"])
async def test_the_time_limit_closes_the_engine_connection_under_every_policy(tmp_path: Path, policy: Policy) -> None:
    """`answer_timeout` is no client's leaving: `finish` does not keep the engine at work."""
    async with stack(
        tmp_path, Engine(lambda e: e.peer_left.wait(), on_disconnect=policy), engine={"answer_timeout": "100ms"}
    ) as s:
        answer = await s.post()
        assert (answer.status, answer.code) == (504, "upstream_timeout")
        await until(lambda: s.up.peers_left == 1)
        assert s.totals("failed", "cancelled") == (1, 0)


@pytest.mark.parametrize("policy", ["cancel", "finish"])
async def test_a_client_that_does_not_read_is_cut(tmp_path: Path, policy: Policy) -> None:
    """`write_timeout` counts as the client's leaving: the slot is free again although the client stays connected."""
    engine = Patient(pieces=250)  # 15 MB: the kernel's own buffers on the way grow to about 10
    async with stack(tmp_path, Engine(engine.serve, on_disconnect=policy), stream={"write_timeout": "200ms"}) as s:
        client = await s.connect(receive_buffer=4096)
        await client.post(CHAT, chat(stream=True))
        await until(lambda: engine.begun)
        engine.go_on.set()
        await s.idle()
        assert s.totals("cancelled", "completed", "failed") == (1, 0, 0)
        assert engine.to_the_end == int(policy == "finish")


async def test_an_engine_that_falls_silent_is_a_failure_also_under_finish(tmp_path: Path) -> None:
    """`idle_timeout` ends a silent stream with an error event and closes the engine connection."""

    async def falls_silent(exchange: Exchange) -> None:
        await exchange.send(stream_head() + PIECE)
        await exchange.peer_left.wait()

    async with stack(tmp_path, Engine(falls_silent, on_disconnect="finish"), stream={"idle_timeout": "200ms"}) as s:
        answer = await s.post(chat(stream=True))
        assert answer.cut
        assert b'"upstream_timeout"' in answer.body
        await until(lambda: s.up.peers_left == 1)
        assert s.totals("failed", "cancelled") == (1, 0)


@pytest.mark.parametrize(
    ("last", "counted"),
    [
        ([event("[DONE]")], (1, 0, 0)),
        ([event({"error": {"message": "out of memory"}}), event("[DONE]")], (0, 1, 0)),
        ([event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})], (0, 0, 1)),
    ],
    ids=["whole", "error", "not-yet"],
)
async def test_a_client_that_leaves_with_the_last_event(
    tmp_path: Path, last: list[bytes], counted: tuple[int, int, int]
) -> None:
    """Codex and others close at the stream's own end, before the engine's: that answer was whole, and counts so."""

    async def serve(exchange: Exchange) -> None:
        await exchange.send(stream_head() + b"".join(map(chunk, [event({"choices": []}), *last])))
        await exchange.peer_left.wait()

    async with stack(tmp_path, Engine(serve)) as s:
        client = await s.open(chat(stream=True))
        await client.until(last[-1])
        assert s.load() == (1, 0)
        client.close()
        await s.idle()
        assert s.totals("completed", "failed", "cancelled") == counted
