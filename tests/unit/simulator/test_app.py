"""The simulated engine over HTTP: answers, pace, slots, and clients that leave."""

import asyncio
import io
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import openai
import pytest

from iop.simulator.app import Simulator, SimulatorSpec
from iop.transport.http_server import listen
from tests.fakes.until import until

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
RESPONSES = {"model": "m", "input": "hi"}
PATHS = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}


@asynccontextmanager
async def running(*, slots=2, speed=10_000.0, api_key=None):
    """Serve a simulator on a free port; gives it and a client session with its base URL."""
    simulator = Simulator(SimulatorSpec(model="m", slots=slots, tokens_per_second=speed, api_key=api_key))
    listener = await listen(simulator.app(), "127.0.0.1", 0, stop_within=0.1)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{listener.port}") as session:
            yield simulator, session
    finally:
        await listener.close()


async def test_models():
    """The model list names the one model."""
    async with running() as (_, http), http.get("/v1/models") as response:
        assert [model["id"] for model in (await response.json())["data"]] == ["m"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_answers_and_counts(path, stream):
    """Each API answers whole and streamed, and the counters say so."""
    async with running() as (_, http):
        async with http.post(path, json={**PATHS[path], "stream": stream}) as response:
            text = await response.text()
            assert response.status == 200
        assert "token1" in text
        async with http.get("/stats") as response:
            assert await response.json() == {
                "running": 0, "waiting": 0, "peak_running": 1, "peak_offered": 1, "started": 1, "completed": 1,
                "cancelled": 0,
            }  # fmt: skip


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (json.dumps({**CHAT, "model": "x"}).encode(), 404)])
async def test_refusals_take_no_slot(body, status):
    """A bad request is answered with OpenAI's error object and never counted as started."""
    async with running() as (simulator, http), http.post("/v1/chat/completions", data=body) as response:
        assert response.status == status
        assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
        assert simulator.slots.stats.started == 0


@pytest.mark.parametrize("path", ["/nowhere", "/v1/responses"])
async def test_what_is_not_there_is_told_in_json(path):
    """An unknown path and a method that does not fit get the error object as well."""
    async with running() as (_, http), http.get(path) as response:
        told = (await response.json())["error"]
        assert (response.status, told["code"]) in {(404, "not_found"), (405, "method_not_allowed")}


async def test_bytes_that_are_not_http_are_refused_in_json(caplog):
    """An error object and a closed connection; one line in the log and no traceback."""
    async with running() as (_, http):
        reader, writer = await asyncio.open_connection(http._base_url.host, http._base_url.port)
        writer.write(b"this is not HTTP\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    assert head.split(b" ", 2)[1] == b"400"
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    assert [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []


async def test_api_key():
    """With a key set, others are refused."""
    async with running(api_key="right") as (_, http):
        for given, status in (("Bearer right", 200), ("Bearer wrong", 401), ("", 401)):
            async with http.get("/v1/models", headers={"Authorization": given}) as response:
                assert response.status == status


async def test_pace():
    """An answer takes its tokens divided by the speed, streamed or not."""
    async with running(speed=50) as (_, http):
        for stream in (False, True):
            begun = time.monotonic()
            async with http.post("/v1/responses", json={**RESPONSES, "stream": stream, "max_output_tokens": 10}) as got:
                await got.read()
            assert time.monotonic() - begun >= 0.2


async def test_large_body():
    """A body above aiohttp's own default limit is read."""
    body = io.BytesIO(json.dumps({"model": "m", "input": "x" * 3_000_000}).encode())
    async with running() as (_, http), http.post("/v1/responses", data=body) as response:
        assert response.status == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_leaving_client_frees_its_slot(path, stream):
    """A client that leaves, running or waiting inside, is noticed at once and counted as cancelled."""
    async with running(slots=1, speed=0.5) as (simulator, http):
        stats = simulator.slots.stats
        tasks = [asyncio.ensure_future(send(http, path, stream)) for _ in range(3)]
        await until(lambda: stats.waiting == 2)
        await leave(tasks.pop())
        await until(lambda: stats.cancelled == 1)
        for task in tasks:
            await leave(task)
        await until(lambda: stats.cancelled == 3)
        await until(lambda: stats.running == 0)
        assert stats.peak_offered == 3
        assert stats.completed == 0


async def send(http, path, stream):
    """Post and read to the end."""
    async with http.post(path, json={**PATHS[path], "stream": stream}) as response:
        await response.read()


async def leave(task):
    """Close the connection of a request that runs."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_official_sdk_reads_it():
    """The strict stream helper of the official SDK reads a responses stream to its end."""
    async with running() as (_, http):
        client = openai.AsyncOpenAI(base_url=str(http._base_url / "v1"), api_key="none", max_retries=0)
        async with client, client.responses.stream(model="m", input="hi") as stream:
            final = await stream.get_final_response()
        assert final.output_text.startswith("token1 token2")
