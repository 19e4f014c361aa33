"""A request that continues a response goes to the engine that keeps it, or is told that it is gone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from iop.edge.refresh import RefreshAsk
from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.stack import RESPONSES, Engine, Stack, stack


class Keeper:
    """An engine that names its responses after itself; `gate` holds each answer's end back."""

    def __init__(self, name: str) -> None:
        self.name, self.made = name, 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.continued: list[str | None] = []

    async def answer(self, exchange: Exchange) -> None:
        self.continued.append(exchange.json.get("previous_response_id"))
        self.made += 1
        made = {"id": f"resp_{self.name}_{self.made}", "object": "response", "status": "completed", "output": []}
        if not exchange.json.get("stream"):
            await self.gate.wait()
            await exchange.send(response(200, b'{"output": [], "id": "%s"}' % made["id"].encode()))
            return
        await exchange.send(stream_head())
        for number, kind in enumerate(("created", "completed")):
            told = {"type": f"response.{kind}", "sequence_number": number, "response": made}
            await exchange.send(chunk(event(told)))
            await self.gate.wait()
        await exchange.send(LAST_CHUNK)


def asking(**more: Any) -> dict[str, Any]:
    """A responses request."""
    return {"model": "m", "input": "go on", **more}


async def remove(s: Stack, path: Path, provider_id: str) -> None:
    """Take a provider out of the running config."""
    config = yaml.safe_load(path.read_text())
    config["models"][0]["providers"].pop(provider_id)
    config["nodes"][0]["providers"] = [p for p in config["nodes"][0]["providers"] if p["id"] != provider_id]
    reply = await s.edge._core.refresh(RefreshAsk("apply", yaml.safe_dump(config), str(path)))
    assert reply.status == 200, reply.body


async def made_by(s: Stack, **more: Any) -> str:
    """Make a response that continues none; its id tells the engine."""
    answer = await s.post(asking(**more), RESPONSES)
    assert answer.status == 200
    return str(answer.json["id"]) if not more.get("stream") else answer.body.decode().split('"id": "')[1].split('"')[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_continues_a_response_goes_to_its_maker(tmp_path: Path, stream: bool) -> None:
    """Both engines are free: each of twelve requests reaches the engine that keeps the response it names."""
    a, b = Keeper("a"), Keeper("b")
    async with stack(tmp_path, Engine(a.answer, capacity=2), Engine(b.answer, capacity=2)) as s:
        firsts = [await made_by(s, stream=stream) for _ in range(2)]
        assert {first.split("_")[1] for first in firsts} == {"a", "b"}
        for first in firsts * 6:
            assert (await made_by(s, stream=stream, previous_response_id=first)).split("_")[1] == first.split("_")[1]
        assert {first for keeper in (a, b) for first in keeper.continued if first} == set(firsts)


async def test_it_waits_for_its_maker_in_line_while_another_has_room(tmp_path: Path) -> None:
    """The maker is full: the request waits although the other engine is free, and newcomers are served by that one."""
    a, b = Keeper("a"), Keeper("b")
    async with stack(tmp_path, Engine(a.answer), Engine(b.answer)) as s:
        first = await made_by(s)
        maker, other = (a, b) if first.startswith("resp_a") else (b, a)
        maker.gate.clear()
        running = await s.open(asking(previous_response_id=first), RESPONSES)
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiting = await s.open(asking(previous_response_id=first), RESPONSES)
        await s.until(lambda status: status["totals"]["queued"] == 1)
        assert (await made_by(s)).split("_")[1] == other.name
        assert s.load() == (1, 1)
        maker.gate.set()
        for client in (running, waiting):
            assert (await client.answer()).json["id"].split("_")[1] == maker.name


async def test_an_unknown_response_passes_like_any_field(tmp_path: Path) -> None:
    """Iop never saw it: any engine may know it, and gets the body as it is; so does a chat request with that field."""
    a = Keeper("a")
    async with stack(tmp_path, Engine(a.answer)) as s:
        assert (await s.post(asking(previous_response_id="resp_elsewhere"), RESPONSES)).status == 200
        first = (await s.post(asking(), RESPONSES)).json["id"]
        assert (await s.post({"model": "m", "messages": [], "previous_response_id": first})).status == 200
        assert a.continued == ["resp_elsewhere", None, first]


async def test_a_response_whose_maker_left_the_config_is_not_found(tmp_path: Path) -> None:
    """404 previous_response_not_found, at the door and in line; everybody else goes on."""
    a, b = Keeper("a"), Keeper("b")
    async with stack(tmp_path, Engine(a.answer), Engine(b.answer), drain_timeout="30s") as s:
        first = await made_by(s)
        number = 1 if first.startswith("resp_a") else 2
        maker = a if number == 1 else b
        maker.gate.clear()
        running = await s.open(asking(previous_response_id=first), RESPONSES)
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiting = await s.open(asking(previous_response_id=first), RESPONSES)
        await s.until(lambda status: status["totals"]["queued"] == 1)
        await remove(s, tmp_path / "edge.yaml", f"p{number}")
        for answer in (await waiting.answer(), await s.post(asking(previous_response_id=first), RESPONSES)):
            error = answer.json["error"]
            assert (answer.status, error["code"], error["param"]) == (
                404, "previous_response_not_found", "previous_response_id",
            )  # fmt: skip
        maker.gate.set()
        assert (await running.answer()).status == 200
        assert (await made_by(s)).split("_")[1] != maker.name


async def test_an_agent_keeps_no_responses(tmp_path: Path) -> None:
    """A CLI model would lose the conversation: 404 says so, and the agent is not started."""
    started = tmp_path / "started"
    agent = python(f"open({str(started)!r}, 'w'); print('hi')")
    async with stack(tmp_path, Engine(Keeper("a").answer), agents={"agent": agent}) as s:
        answer = await s.post({"model": "agent", "input": "go on", "previous_response_id": "resp_1"}, RESPONSES)
        assert (answer.status, answer.json["error"]["code"]) == (404, "previous_response_not_found")
        assert not started.exists()


async def test_a_response_too_long_to_hold_has_an_owner_too(tmp_path: Path) -> None:
    """Its beginning tells its id, while the rest passes by."""
    continued: list[int] = []

    def engine(number: int) -> Engine:
        async def script(exchange: Exchange) -> None:
            if exchange.json.get("previous_response_id"):
                continued.append(number)
            text = "x" * 2_000_000
            await exchange.send(response(200, b'{"id": "resp_%d", "text": "%s"}' % (number, text.encode())))

        return Engine(script)

    async with stack(tmp_path, engine(1), engine(2)) as s:
        made = [(await s.post(asking(), RESPONSES)).json["id"] for _ in range(2)]
        assert sorted(made) == ["resp_1", "resp_2"]
        for response_id in ["resp_2", "resp_2", "resp_1"]:
            await s.post(asking(previous_response_id=response_id), RESPONSES)
        assert continued == [2, 2, 1]
