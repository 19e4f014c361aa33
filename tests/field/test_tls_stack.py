"""The whole stack over TLS on all three ports: as over plain TCP, answer for answer."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from tests.fakes.agents import python
from tests.fakes.authority import Authority
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, chat, stack
from tests.fakes.until import until

MIB = 1024 * 1024
DONE = chunk(b"data: [DONE]\n\n") + LAST_CHUNK


async def _stream_until_left(exchange: Exchange) -> None:
    await exchange.send(stream_head())
    while not exchange.peer_left.is_set():
        await exchange.send(chunk(event({"choices": [{"delta": {"content": "x"}}]})))
        await asyncio.sleep(0.002)


async def test_both_routes_and_all_ports(tmp_path: Path) -> None:
    """Chat, responses, an agent, status: all over TLS; a plain client gets nothing and is told in the log."""
    agents = {"agent": python("import sys; print(sys.stdin.read()[::-1])")}
    async with stack(tmp_path, Engine(answer_ok, capacity=2), agents=agents, tls=Authority(tmp_path)) as s:
        assert (await s.post()).status == 200
        assert (await s.post({"model": "m", "input": "hi"}, RESPONSES)).status == 200
        assert (await s.post(chat("abc", model="agent"))).json["choices"][0]["message"]["content"].strip() == "cba"
        assert (await s.get("/v1/models")).status == 200
        assert (await s.get("/status", "admin")).json["nodes"][0]["connected"] is True
        plain = await RawClient.connect(s.address())
        s.clients.append(plain)
        await plain.send(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert await plain.reader.read() == b""


async def test_the_openai_sdk_with_the_ca(tmp_path: Path) -> None:
    """The official client streams over TLS when it is given the CA, and refuses without it."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head())
        for text in "abc":
            await exchange.send(chunk(event({"id": "c", "choices": [{"index": 0, "delta": {"content": text}}]})))
        await exchange.send(DONE)

    authority = Authority(tmp_path)
    async with stack(tmp_path, Engine(script), tls=authority) as s:
        http = DefaultAsyncHttpxClient(verify=authority.trust(), trust_env=False)
        async with AsyncOpenAI(base_url=s.base_url, api_key="none", http_client=http, max_retries=0) as sdk:
            answer = await sdk.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            assert [part.choices[0].delta.content async for part in answer] == ["a", "b", "c"]
        stranger = DefaultAsyncHttpxClient(verify=Authority(tmp_path, "other").trust(), trust_env=False)
        async with AsyncOpenAI(base_url=s.base_url, api_key="none", http_client=stranger, max_retries=0) as sdk:
            with pytest.raises(Exception, match="Connection error"):
                await sdk.models.list()


async def test_one_connection_serves_many_requests(tmp_path: Path) -> None:
    """Keep-alive, and requests sent without waiting for the answers before."""
    async with stack(tmp_path, Engine(answer_ok), tls=Authority(tmp_path)) as s:
        client = await s.connect()
        body = chat()
        request = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        await client.send(request)
        await client.until(b"HTTP/1.1 200")
        await client.send(request * 3)
        await client.until(b"HTTP/1.1 200", 4)
        await until(lambda: len(s.up.requests) == 4)
        client.close()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_clients_that_leave_a_stream_free_their_slots(tmp_path: Path, how: str) -> None:
    """With a TLS goodbye (no half of a connection is left after it) or without: engine stopped, slot free."""
    async with stack(tmp_path, Engine(_stream_until_left, capacity=2), tls=Authority(tmp_path)) as s:
        for _ in range(10):
            client = await s.open(chat(stream=True))
            await client.until(b"data:", 2)
            getattr(client, how)()
        await s.idle()
        await until(lambda: s.up.peers_left == 10)
        assert s.totals("admitted", "cancelled") == (10, 10)


async def test_a_client_that_leaves_the_line_is_never_run(tmp_path: Path) -> None:
    """A closed TLS connection gives its place in line up."""
    gate = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await gate.wait()
        await exchange.send(response(200, b'{"choices": []}'))

    async with stack(tmp_path, Engine(script), tls=Authority(tmp_path)) as s:
        first = await s.open()
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        second = await s.open()
        await s.until(lambda status: status["totals"]["queued"] == 1)
        second.close()
        await s.until(lambda status: status["totals"]["abandoned"] == 1)
        gate.set()
        assert (await first.answer()).status == 200
        assert len(s.up.requests) == 1


async def test_large_bodies_pass_whole_both_ways(tmp_path: Path) -> None:
    """20 MiB up and 20 MiB down, byte for byte, over both TLS connections."""
    up = chat("QUJD" * (5 * MIB))
    down = b'{"choices": ["' + b"QUJD" * (5 * MIB) + b'"]}'

    async def script(exchange: Exchange) -> None:
        await exchange.send(response(200, down))

    async with stack(tmp_path, Engine(script), tls=Authority(tmp_path)) as s:
        answer = await s.post(up)
        assert hashlib.sha256(answer.body).digest() == hashlib.sha256(down).digest()
        assert hashlib.sha256(s.up.requests[0].body).digest() == hashlib.sha256(up).digest()
