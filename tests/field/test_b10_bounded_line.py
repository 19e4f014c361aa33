"""Field case B10: the line is bounded in length and time, says which bound it was, and delays nobody else."""

import asyncio
from collections import Counter
from pathlib import Path

from tests.fakes.fake_up import Exchange
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import Engine, answer_ok, chat, stack

REQUESTS, PLACES = 300, 40
BODY = chat("x" * 64 * 1024)
FAST = 1.0  # seconds: generous for a loaded machine, far below every wait of this case


async def _hangs(exchange: Exchange) -> None:
    await exchange.peer_left.wait()


async def test_b10_three_different_refusals_and_fast_gets(tmp_path: Path) -> None:
    """Field case B10: a hanging engine gives one upstream_timeout, the line 40 queue_timeouts, the rest queue_full."""
    options = {"queue": {"max_waiting": PLACES, "max_wait": "3s"}, "engine": {"answer_timeout": "4s"}}
    async with stack(tmp_path, Engine(_hangs), **options) as s:
        first = await s.open(BODY)
        await s.until(lambda status: s.up.running)
        waiting: list[RawClient] = [await s.open(BODY) for _ in range(PLACES)]
        await s.until(lambda status: status["totals"]["queued"] == PLACES)
        over = await asyncio.gather(*(s.post(BODY) for _ in range(REQUESTS - PLACES - 1)))
        assert Counter((answer.status, answer.code) for answer in over) == {(429, "queue_full"): len(over)}
        assert s.load() == (1, PLACES)
        clock = asyncio.get_running_loop()
        for path, port in (("/v1/models", "openai"), ("/v1/models/m", "openai"), ("/status", "admin")) * 3:
            asked_at = clock.time()
            assert (await s.get(path, port)).status == 200
            assert clock.time() - asked_at < FAST
        timed_out = [await client.answer() for client in waiting]
        assert {(answer.status, answer.code) for answer in timed_out} == {(503, "queue_timeout")}
        hung = await first.answer()
        assert (hung.status, hung.code) == (504, "upstream_timeout")
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in (*over, *timed_out))
        knobs = {"queue.max_waiting": over[0], "queue.max_wait": timed_out[0], "answer": hung}
        assert all(knob in answer.json["error"]["message"] for knob, answer in knobs.items())
        assert not any("x-iop-provider" in answer.headers for answer in (*over, *timed_out, hung))
        counters = ("received", "refused", "expired", "admitted", "failed")
        assert s.totals(*counters) == (REQUESTS, len(over), PLACES, 1, 1)
        assert len(s.up.requests) == 1


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
