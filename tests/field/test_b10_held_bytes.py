"""Field case B10, its bytes: the bodies of those who wait are bounded too."""

import asyncio
from pathlib import Path

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, stream_head
from tests.fakes.stack import CHAT, Engine, Stack, answer_ok, chat, stack

MIB = 1024 * 1024
LARGE = chat("x" * 3 * MIB)


async def _is_full(s: Stack) -> None:
    """A further upload is refused before it was sent, and its connection closed."""
    client = await s.connect()
    await client.send(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(LARGE)}\r\n\r\n".encode())
    answer = await client.answer()
    assert (answer.status, answer.code, answer.headers["connection"]) == (429, "queue_full", "close")
    assert int(answer.headers["retry-after"]) >= 1
    assert "queue.max_bytes" in answer.json["error"]["message"]


async def test_b10_bodies_are_bounded_from_first_byte_to_the_answers_first_byte(tmp_path: Path) -> None:
    """Field case B10: waiting bodies count; those of an answer that has begun and of a client that left do not."""
    begin, end = asyncio.Event(), asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await begin.wait()
        await exchange.send(stream_head() + chunk(event({"n": 1})))
        await end.wait()
        await exchange.send(chunk(event("[DONE]")) + LAST_CHUNK)

    async with stack(tmp_path, Engine(script), queue={"max_bytes": "8MiB"}) as s:
        running = await s.open(chat("x" * 3 * MIB, stream=True))
        waiting = await s.open(LARGE)
        await s.until(lambda status: status["totals"]["received"] == 2)
        await _is_full(s)
        waiting.close()  # gone: its bytes are free
        await s.until(lambda status: status["totals"]["abandoned"] == 1)
        unfinished = await s.connect()
        await unfinished.send(
            f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(LARGE)}\r\n\r\n".encode()
        )
        await unfinished.send(LARGE[:-1])
        begin.set()
        await running.until(b"data:")
        s.up.script = answer_ok
        last = await s.open(LARGE)
        await s.until(lambda status: status["totals"]["received"] == 3)
        await unfinished.send(LARGE[-1:])
        await s.until(lambda status: status["totals"]["received"] == 4)
        end.set()
        assert [(await client.answer()).status for client in (running, last, unfinished)] == [200, 200, 200]
        assert s.totals("received", "refused") == (4, 0)  # what was refused for its bytes never asked for a slot
