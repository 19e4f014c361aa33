"""Field case B10: the line is bounded in length and time, says which bound it was, and delays nobody else."""

import asyncio
from collections import Counter
from pathlib import Path

from tests.fakes.fake_up import Exchange
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import Engine, answer_ok, chat, stack

REQUESTS, PLACES = 300, 40
BODY = chat("x" * 64 * 1024)
FAST = 10.0  # seconds: generous for a loaded machine, far below every wait of this case


async def _hangs(exchange: Exchange) -> None:
    await exchange.peer_left.wait()


async def test_b10_a_full_line_refuses_and_delays_nobody_else(tmp_path: Path) -> None:
    """Field case B10: with 40 places taken every further request gets queue_full at once; GETs are answered."""
    async with stack(tmp_path, Engine(_hangs), queue={"max_waiting": PLACES, "max_wait": "1h"}) as s:
        clients: list[RawClient] = [await s.open(BODY)]
        await s.until(lambda status: s.up.running)
        clients += [await s.open(BODY) for _ in range(PLACES)]
        await s.until(lambda status: status["totals"]["queued"] == PLACES)
        over = await asyncio.gather(*(s.post(BODY) for _ in range(REQUESTS - PLACES - 1)))
        assert Counter((answer.status, answer.code) for answer in over) == {(429, "queue_full"): len(over)}
        assert s.load() == (1, PLACES)
        clock = asyncio.get_running_loop()
        for path, port in (("/v1/models", "openai"), ("/v1/models/m", "openai"), ("/status", "admin")) * 3:
            asked_at = clock.time()
            assert (await s.get(path, port)).status == 200
            assert clock.time() - asked_at < FAST
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in over)
        assert "queue.max_waiting" in over[0].json["error"]["message"]
        assert not any("x-iop-provider" in answer.headers for answer in over)
        assert s.totals("received", "refused", "admitted") == (REQUESTS, len(over), 1)
        assert len(s.up.requests) == 1
        for client in clients:
            client.close()


async def test_b10_a_wait_and_an_engine_that_take_too_long_are_told_apart(tmp_path: Path) -> None:
    """Field case B10: a wait over queue.max_wait is 503 queue_timeout, a silent engine 504 upstream_timeout."""
    (tmp_path / "line").mkdir()
    async with stack(tmp_path / "line", Engine(_hangs), queue={"max_wait": "200ms"}) as s:
        first = await s.open(BODY)
        await s.until(lambda status: s.up.running)
        waited = await s.post(BODY)
        assert (waited.status, waited.code) == (503, "queue_timeout")
        assert int(waited.headers["retry-after"]) >= 1
        assert "queue.max_wait" in waited.json["error"]["message"]
        assert s.totals("received", "expired", "admitted") == (2, 1, 1)
        first.close()
    async with stack(tmp_path, Engine(_hangs), engine={"answer_timeout": "200ms"}) as s:
        hung = await s.post(BODY)
        assert (hung.status, hung.code) == (504, "upstream_timeout")
        assert "answer" in hung.json["error"]["message"]
        assert not any("x-iop-provider" in answer.headers for answer in (waited, hung))
        assert s.totals("received", "admitted", "failed") == (1, 1, 1)


async def test_b10_asking_for_models_takes_no_slot_and_no_place(tmp_path: Path) -> None:
    """Field case B10: model lists and health checks are served and not counted, with a full line and one slot."""
    async with stack(tmp_path, Engine(_hangs), queue={"max_waiting": 1}) as s:
        clients = [await s.open() for _ in range(2)]
        await s.until(lambda status: status["totals"]["queued"] == 1)
        for path in ("/v1/models", "/healthz", "/readyz"):
            assert (await s.get(path)).status == 200
        assert (await s.post()).code == "queue_full"
        assert s.totals("received", "refused") == (3, 1)
        s.up.script = answer_ok
        for client in clients:
            client.close()
