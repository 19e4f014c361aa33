"""vllm-mlx, the Mac's engine, and mlx_lm.server, the odd one, behind the pool."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.engines.mlx import START, MlxServers, free_port, serving
from tests.fakes.raw_client import Answer
from tests.fakes.skeleton import check_skeleton
from tests.fakes.stack import CHAT, RESPONSES, Engine, Stack, stack

SLOTS = 2
HELLO = {"messages": [{"role": "user", "content": "say hi"}], "temperature": 0}
MLX_LM = [{"id": "m", "providers": {"p1": "default_model"}}]


@pytest.fixture
async def vllm_mlx(tmp_path: Path, mlx: MlxServers) -> AsyncIterator[Stack]:
    """A stack of two slots over vllm-mlx."""
    port = free_port()
    async with (
        serving(mlx.vllm_mlx(port), port, tmp_path) as url,
        stack(tmp_path, _engine(url), checks_request=False) as s,
    ):
        yield s


@pytest.fixture
async def mlx_lm(tmp_path: Path, mlx: MlxServers) -> AsyncIterator[Stack]:
    """A stack of two slots over mlx_lm.server."""
    port = free_port()
    async with (
        serving(mlx.mlx_lm(port), port, tmp_path) as url,
        stack(tmp_path, _engine(url), models=MLX_LM, checks_request=False) as s,
    ):
        yield s


def _engine(url: str) -> Engine:
    return Engine(url, capacity=SLOTS, on_disconnect="cancel_streams")


async def _ask(s: Stack, path: str = CHAT, **fields: Any) -> Answer:
    """One request with its own long wait: the first answer may compile."""
    async with asyncio.timeout(START):
        client = await s.open({"model": "m", **fields}, path)
        while not client.reader.at_eof() and (data := await client.reader.read(65536)):
            client.seen += data
        return await client.answer()


def _deltas(body: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
    return [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]


async def _burst(s: Stack) -> None:
    """One request more than slots: that one waits in line, all are answered, in_flight never exceeds the slots."""
    before = s.totals("completed")[0]
    asks = asyncio.gather(*(_ask(s, **HELLO, max_tokens=60, stream=True) for _ in range(SLOTS + 1)))
    await s.until(lambda status: (status["totals"]["in_flight"], status["totals"]["queued"]) == (SLOTS, 1))
    answers = await asks
    assert [(answer.status, answer.cut) for answer in answers] == [(200, False)] * (SLOTS + 1)
    assert sorted(int(answer.headers["x-iop-queue-ms"]) > 0 for answer in answers) == [False] * SLOTS + [True]
    await s.idle()
    assert s.totals("completed")[0] - before == SLOTS + 1


async def _leave(s: Stack) -> None:
    """A client that leaves a long stream frees its slot."""
    client = await s.open({"model": "m", **HELLO, "max_tokens": 4000, "stream": True})
    await client.until(b"data: ")
    client.reset()
    await s.idle()
    assert s.totals("cancelled") == (1,)


async def test_vllm_mlx(vllm_mlx: Stack) -> None:
    """Chat and responses whole and streamed, its own errors, one over capacity, a client that leaves, the SDK."""
    s = vllm_mlx
    whole = await _ask(s, **HELLO, max_tokens=8, own_field=[1], chat_template_kwargs={"enable_thinking": False})
    assert (whole.status, whole.json["usage"]["completion_tokens"]) == (200, 8)
    streamed = await _ask(s, **HELLO, max_tokens=8, stream=True)
    text = "".join(delta.get("content") or "" for delta in _deltas(streamed.body))
    assert text.strip() == whole.json["choices"][0]["message"]["content"].strip()
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    response, text = check_skeleton((await _ask(s, RESPONSES, input="say hi", max_output_tokens=8, stream=True)).body)
    assert (response["status"], response["output"][0]["content"][0]["text"]) == ("incomplete", text)
    refused = await _ask(s, **HELLO, max_tokens=99_999_999)
    assert (refused.status, refused.json) == (400, {"detail": "max_tokens exceeds server limit (32768)"})
    broken = await _ask(s, messages=[])
    assert (broken.status, broken.body) == (500, b"Internal Server Error")
    assert (broken.headers["content-type"], broken.headers["x-iop-provider"]) == ("text/plain; charset=utf-8", "p1")
    async with (
        AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0, timeout=START) as client,
        client.responses.stream(model="m", input="hi", max_output_tokens=8) as events,
    ):
        deltas = [event.delta async for event in events if event.type == "response.output_text.delta"]
        assert (await events.get_final_response()).output_text == "".join(deltas) != ""
    await s.idle()
    await _burst(s)
    await _leave(s)


async def test_mlx_lm(mlx_lm: Stack) -> None:
    """HTTP/1.0 without a length is served as HTTP/1.1, keep-alives and all; plain words and string errors pass."""
    s = mlx_lm
    whole = await _ask(s, **HELLO, max_tokens=8)
    assert (whole.status, whole.json["usage"]["completion_tokens"]) == (200, 8)
    prompt = {"messages": [{"role": "user", "content": "amber birch " * 400}]}
    streamed = await _ask(s, **prompt, max_tokens=8, stream=True)
    assert (streamed.status, streamed.cut, streamed.headers["transfer-encoding"]) == (200, False, "chunked")
    assert streamed.body.startswith(b": keepalive ")
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert len([delta for delta in _deltas(streamed.body) if delta.get("content")]) == 8
    nowhere = await _ask(s, RESPONSES, input="say hi")
    assert (nowhere.status, nowhere.body, nowhere.headers["x-iop-provider"]) == (404, b"Not Found", "p1")
    refused = await _ask(s, messages=[])
    assert (refused.status, type(refused.json["error"])) == (404, str)
    lost = await _ask(s, **HELLO, max_tokens=-1)  # mlx_lm 0.31.3 raises and hangs up without an answer
    assert (lost.status, lost.json["error"]["type"]) == (502, "server_error")
    async with httpx.AsyncClient(trust_env=False, timeout=START) as client:

        async def pieces() -> AsyncIterator[bytes]:
            yield json.dumps({"model": "m", **HELLO, "max_tokens": 2}).encode()

        # a body without a length is 411 to mlx_lm itself
        assert (await client.post(s.base_url + "/chat/completions", content=pieces())).status_code == 200
    await s.idle()
    await _burst(s)
    await _leave(s)
