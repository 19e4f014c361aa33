"""Field case B51: a provider or model is removed while requests run or wait."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.raw_client import RawClient
from tests.fakes.refreshing import refresh
from tests.fakes.stack import Engine, Stack, chat, stack

P1 = "p1"


class Hanging:
    """An engine that begins a stream and then stays silent until `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def serve(self, exchange: Exchange) -> None:
        if not exchange.json.get("stream"):
            return await exchange.send(response())
        await exchange.send(stream_head() + chunk(event({"n": 1})))
        await self.go.wait()
        return await exchange.send(chunk(event("[DONE]")) + LAST_CHUNK)


async def change(s: Stack, folder: Path, how: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Change edge.yaml and apply it; the refresh must succeed."""
    path = folder / "edge.yaml"
    data = yaml.safe_load(path.read_text())
    how(data)
    path.write_text(yaml.safe_dump(data))
    code, body = await refresh(s.ready["admin"], path)
    assert code == 0, body
    return body


def without_p1(data: dict[str, Any]) -> None:
    """Take p1 out, and what is served by nothing then."""
    for node in data["nodes"]:
        node["providers"] = [one for one in node["providers"] if one["id"] != P1]
    for model in data["models"]:
        model["providers"].pop(P1, None)
    data["models"] = [model for model in data["models"] if model["providers"]]


async def one_hangs_five_wait(s: Stack) -> tuple[RawClient, list[RawClient]]:
    """A stream that was begun on p1, and five requests of the model `solo`, which only p1 serves."""
    holder = await s.open(chat("hold", model="solo", stream=True))
    await holder.until(b"data:")
    waiting = [await s.open(chat(str(number), model="solo")) for number in range(5)]
    await s.until(lambda status: status["totals"]["queued"] == 5)
    return holder, waiting


def provider(s: Stack, name: str = P1) -> dict[str, Any] | None:
    """A provider as status tells it, without what grows with time."""
    found = next((one for one in s.status()["provider_snapshots"] if one["provider_id"] == name), None)
    return found and {key: value for key, value in found.items() if key != "oldest_in_flight_s"}


SOLO = {"id": "solo", "providers": {P1: "m"}}
BOTH = {"id": "m", "providers": {P1: "m", "p2": "m"}}


async def test_b51_the_model_goes_with_its_provider(tmp_path: Path) -> None:
    """Field case B51: waiters get 404 at once, the running stream ends whole, then the provider is gone from status."""
    one, two = Hanging(), Hanging()
    engines = Engine(one.serve), Engine(two.serve)
    async with stack(tmp_path, *engines, models=[SOLO, BOTH], drain_timeout="1h") as s:
        holder, waiting = await one_hangs_five_wait(s)
        await change(s, tmp_path, without_p1)
        answers = [await client.answer() for client in waiting]
        assert {(answer.status, answer.code) for answer in answers} == {(404, "model_not_found")}
        assert (await s.post(chat(model="solo"))).code == "model_not_found"
        removing = provider(s)
        assert removing is not None
        assert (removing["state"], removing["in_flight"]) == ("removing", 1)
        await change(s, tmp_path, lambda data: data.update(queue={"max_waiting": 9}))  # again, during the drain
        assert provider(s) == removing
        one.go.set()
        answer = await holder.answer()
        assert not answer.cut
        assert b"[DONE]" in answer.body
        await s.until(lambda _status: provider(s) is None)
        assert s.totals("completed") == (1,)


async def test_b51_waiters_move_to_another_provider(tmp_path: Path) -> None:
    """Field case B51: when another provider serves the model by then, those who wait are served there, in order."""
    one, two = Hanging(), Hanging()
    engines = Engine(one.serve), Engine(two.serve)
    async with stack(tmp_path, *engines, models=[SOLO, BOTH], drain_timeout="1h") as s:
        holder, waiting = await one_hangs_five_wait(s)

        def move(data: dict[str, Any]) -> None:
            data["models"][0]["providers"] = {"p2": "m"}
            without_p1(data)

        await change(s, tmp_path, move)
        answers = [await client.answer() for client in waiting]
        assert {(answer.status, answer.headers["x-iop-provider"]) for answer in answers} == {(200, "p2")}
        assert [one.json["messages"][0]["content"] for one in s.ups[1].requests] == ["0", "1", "2", "3", "4"]
        assert s.load() == (1, 0)
        one.go.set()
        assert b"[DONE]" in (await holder.answer()).body


async def test_b51_what_hangs_is_cut_at_the_drain_timeout(tmp_path: Path) -> None:
    """Field case B51: an engine that never ends its stream gets drain_timeout; the client then reads an error event."""
    one, two = Hanging(), Hanging()
    engines = Engine(one.serve), Engine(two.serve)
    async with stack(tmp_path, *engines, models=[SOLO, BOTH], drain_timeout="300ms") as s:
        holder, waiting = await one_hangs_five_wait(s)
        await change(s, tmp_path, without_p1)
        answer = await holder.answer()
        error = json.loads(answer.body.split(b"data: ")[-1])["error"]
        assert error["type"] == "server_error"
        assert b"[DONE]" not in answer.body
        assert {(await client.answer()).status for client in waiting} == {404}
        await s.until(lambda _status: provider(s) is None)
        assert s.totals("failed", "completed") == (1, 0)
        await s.until(lambda _status: s.up.running == 0)  # the engine's connection was closed


async def test_b51_a_provider_that_comes_back_during_its_drain_keeps_its_work(tmp_path: Path) -> None:
    """Field case B51: removed and put back while its stream runs: the slot is still held, nobody is cut."""
    one, two = Hanging(), Hanging()
    engines = Engine(one.serve), Engine(two.serve)
    async with stack(tmp_path, *engines, models=[SOLO, BOTH], drain_timeout="1h") as s:
        before = yaml.safe_load((tmp_path / "edge.yaml").read_text())
        holder = await s.open(chat("hold", model="solo", stream=True))
        await holder.until(b"data:")
        await change(s, tmp_path, without_p1)
        await change(s, tmp_path, lambda data: (data.clear(), data.update(before)))
        back = provider(s)
        assert back is not None
        assert back["in_flight"] == 1
        waiting = await s.open(chat("next", model="solo"))
        await s.until(lambda status: status["totals"]["queued"] == 1)
        one.go.set()
        assert b"[DONE]" in (await holder.answer()).body
        assert (await waiting.answer()).status == 200
