"""Field case B06: counters under errors, aborts at every moment and flapping probes."""

import asyncio
import random
from pathlib import Path

from tests.fakes.fake_up import Exchange, chunk, event, response, stream_head
from tests.fakes.stack import Engine, Stack, answer_ok, chat, stack

CAPACITY = 3
REQUESTS = 500
DELTA = event({"choices": [{"index": 0, "delta": {"content": "x"}}]})


async def _hangs(exchange: Exchange) -> None:
    await exchange.peer_left.wait()


class Moody:
    """An engine that answers well, breaks after its last event, resets, and whose probe answers now 200, now 503."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    async def serve(self, exchange: Exchange) -> None:
        mood = self.random.random()
        if not exchange.json.get("stream"):
            await exchange.send(response(200 if mood < 0.8 else 500))
            return
        await exchange.send(stream_head())
        for _ in range(self.random.randrange(4)):
            await exchange.send(chunk(DELTA))
            await asyncio.sleep(self.random.choice((0, 0.001)))
        if mood < 0.2:
            exchange.reset()
            return
        await exchange.send(chunk(event("[DONE]")))
        if mood < 0.4:
            exchange.reset()  # an error after the last event
        else:
            await exchange.send(b"0\r\n\r\n")

    async def probe(self, exchange: Exchange) -> None:
        await exchange.send(response(self.random.choice((200, 503))))


async def _client(s: Stack, rnd: random.Random, gate: asyncio.Semaphore) -> None:
    async with gate:
        client = await s.open(chat(stream=rnd.random() < 0.7))
        mood = rnd.random()
        if mood < 0.2:  # leaves at once, in line or just being granted
            await asyncio.sleep(rnd.choice((0, 0, 0.002)))
            client.reset()
        elif mood < 0.5:  # leaves with the first bytes, or at the moment of [DONE]
            mark = b"data:" if rnd.random() < 0.5 else b"[DONE]"
            while mark not in client.seen and (data := await client.reader.read(4096)):
                client.seen += data
            client.close()
        else:
            await client.answer()
        provider = s.status()["provider_snapshots"][0]
        assert 0 <= provider["in_flight"] <= CAPACITY


async def test_b06_capacity_holds_and_every_grant_ends_once(tmp_path: Path) -> None:
    """Field case B06: 500 random requests with random aborts never exceed capacity and leave all counters right."""
    moody, rnd, gate = Moody(6), random.Random(60), asyncio.Semaphore(40)
    async with stack(tmp_path, Engine(moody.serve, capacity=CAPACITY), probe={"every": "20ms"}) as s:
        s.up.probe = moody.probe
        async with asyncio.TaskGroup() as group:
            for _ in range(REQUESTS):
                group.create_task(_client(s, rnd, gate))
        await s.idle()
        assert s.up.hwm == CAPACITY
        received, expired, refused = s.totals("received", "expired", "refused")
        assert received <= REQUESTS  # a client may be gone before its request was whole
        assert (expired, refused) == (0, 0)
        assert all(s.totals("completed", "failed"))
        s.up.probe, s.up.script = answer_ok, _hangs
        await s.until(lambda status: status["provider_snapshots"][0]["state"] == "ready")
        (cancelled,) = s.totals("cancelled")  # how many of the storm's aborts came in time is chance; this one does
        client = await s.open()
        await s.until(lambda _: s.up.running)
        client.close()
        await s.idle()
        assert s.totals("cancelled") == (cancelled + 1,)
        s.up.script = answer_ok
