"""An engine that breaks HTTP, leads elsewhere or never ends: node and Edge pass on what is an answer, and no more."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx
import pytest

from tests.attack.target import Target
from tests.fakes.fake_up import (
    JSON,
    LAST_CHUNK,
    SSE,
    Exchange,
    FakeUp,
    chunk,
    event,
    head,
    healthy,
    response,
    stream_head,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROVIDER, MODEL, NODE = "evil-p", "evil", "gx10-vllm-node"
GZIP = ("Content-Encoding", "gzip")
DELTA = event({"choices": [{"index": 0, "delta": {"content": "\x1b[2J\x00\u202e"}}]})
SECRET = "reached-another-host"

Script = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True)
class Evil:
    """`told`: the statuses a client may see; `cut`: the answer may break off after them."""

    name: str
    script: Script
    told: tuple[int, ...]
    cut: bool = False
    stream: bool = False


def _says(*parts: bytes, close: bool = True) -> Script:
    async def script(exchange: Exchange) -> None:
        for part in parts:
            await exchange.send(part)
        if close:
            exchange.close()

    return script


def _repeats(first: bytes, part: bytes, times: int = 100_000) -> Script:
    """Send `part` again and again, until the peer has left or it was sent so many times."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(first)
        for number in range(times):
            if exchange.peer_left.is_set():
                break
            await exchange.send(part)
            if number % 64 == 0:
                await asyncio.sleep(0)
        exchange.close()

    return script


def _leads_to(url: str, status: int) -> Script:
    return _says(response(status, b"{}", [*JSON, ("Location", url)]))


NESTED = b'data: {"error":' + b"[" * 50_000 + b"\n\n"
BOMB = gzip.compress(bytes(64 << 20), 9)
EVILS = [
    Evil("headers without end", _repeats(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 100), (502,)),
    Evil("one header without end", _repeats(b"HTTP/1.1 200 OK\r\nX: ", b"a" * 4096), (502,)),
    Evil("a thousand interim answers", _says(head(103, (("Link", "</x>"),)) * 1000, response()), (200, 502)),
    Evil("an upgrade", _says(head(101, (("Upgrade", "h2c"), ("Connection", "Upgrade"))), b"SM"), (502,)),
    Evil("no HTTP", _says(bytes(range(256)) * 20), (502,)),
    Evil("HTTP/2", _says(b"HTTP/2 200\r\n\r\n{}"), (200, 502)),
    Evil("a status of two digits", _says(b"HTTP/1.1 20 OK\r\n\r\n{}"), (502,)),
    Evil("a status of nine hundred", _says(response(999, b"{}")), (999,)),
    Evil("two lengths", _says(head(200, (*JSON, ("Content-Length", "2"), ("Content-Length", "9"))), b"{}"), (502,)),
    Evil("a length and chunks", _says(stream_head(200, (*JSON, ("Content-Length", "5"))), chunk(b"{}"), LAST_CHUNK),
         (200, 502)),
    Evil("a length that is too long", _says(head(200, (*JSON, ("Content-Length", "99"))), b"{}"), (502,)),
    Evil("a length that is too short", _says(head(200, (*JSON, ("Content-Length", "2"))), b"{}" + response()), (200,)),
    Evil("a chunk that lies", _says(stream_head(200, JSON), b"ffffffff\r\n{}"), (502,)),
    Evil("a chunk of no size", _says(stream_head(200, JSON), b"zz\r\n{}\r\n"), (502,)),
    Evil("trailers", _says(stream_head(200, JSON), chunk(b"{}"), b"0\r\nSet-Cookie: a=b\r\nx-iop-provider: y\r\n\r\n"),
         (200,)),
    Evil("a body to no end", _repeats(stream_head(200, JSON), chunk(b"a" * 60_000), 400), (200,), cut=True),
    Evil("a bomb", _says(response(200, BOMB, (*JSON, GZIP))), (200, 502), cut=True),
    Evil("a bomb as a stream", _says(response(200, BOMB, (*SSE, GZIP))), (200, 502), cut=True, stream=True),
    Evil("an event of 20 MB", _repeats(stream_head(200, SSE) + chunk(b"data: "), chunk(b"x" * 60_000), 340), (200,),
         cut=True, stream=True),
    Evil("events that steer a terminal", _says(stream_head(200, SSE), chunk(DELTA + event("[DONE]")), LAST_CHUNK),
         (200,), stream=True),
    Evil("an error that is nested deep", _says(stream_head(200, SSE), chunk(NESTED), LAST_CHUNK), (200,), cut=True,
         stream=True),
    Evil("headers of others", _says(response(200, b"{}", [*JSON, ("Set-Cookie", "a=b"), ("x-iop-provider", "y"),
                                                          ("Access-Control-Allow-Origin", "*")])), (200,)),
    Evil("a page", _says(response(200, b"<script>alert(1)</script>", [("Content-Type", "text/html")])), (200,)),
]  # fmt: skip


@contextlib.asynccontextmanager
async def engine(target: Target, script: Script) -> AsyncIterator[FakeUp]:
    """The engine of a provider with one slot on an honest node, behind a model of its own."""
    async with FakeUp(script, probe=healthy) as up:
        config = target.config()
        node = next(entry for entry in config["nodes"] if entry["id"] == NODE)
        instance = {"name": "evil-e", "enabled": True, "provider": "other", "endpoint": up.url}
        node["adapters"]["openai_compat_instances"].append(instance)
        provider = {"id": PROVIDER, "type": "other", "category": "local_inference", "adapter": "evil-e", "capacity": 1}
        node["providers"].append(provider)
        config["models"].append({"id": MODEL, "providers": {PROVIDER: "m"}})
        await target.apply(config)
        try:
            yield up
        finally:
            await target.apply(target.config())
            await target.cluster.status_where(
                lambda s: all(p["provider_id"] != PROVIDER for p in s["provider_snapshots"]), "its provider is gone"
            )


async def _ask(target: Target, *, stream: bool) -> tuple[httpx.Response, bytes, bool]:
    """The answer's head, its body as far as it came, and whether it broke off."""
    body = {"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    got, size, cut = bytearray(), 0, False
    url = f"{target.cluster.openai}/chat/completions"
    async with target.cluster.client.stream("POST", url, json=body) as answer:
        try:
            async for part in answer.aiter_raw():
                size += len(part)
                got += part[: max(0, 100_000 - len(got))]
        except httpx.RemoteProtocolError:
            cut = True
    return answer, bytes(got), cut


@pytest.mark.parametrize("evil", EVILS, ids=lambda evil: evil.name)
async def test_a_client_gets_an_answer_or_a_clear_error(target: Target, evil: Evil) -> None:
    """Never a fault of iop's own; no header passes that is not the engine's to set; the slot is free afterwards."""
    async with engine(target, evil.script) as up:
        answer, body, cut = await _ask(target, stream=evil.stream)
        assert answer.status_code in evil.told, body[:500]
        assert evil.cut or not cut
        assert not {"set-cookie", "access-control-allow-origin", "location", "upgrade"} & set(answer.headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers.get("x-iop-provider", PROVIDER) == PROVIDER
        if answer.status_code == 502:
            assert json.loads(body)["error"]["code"] in {"upstream_broken", "upstream_unreachable"}
        await target.cluster.calm()
        up.script = _says(response())
        assert (await _ask(target, stream=False))[0].status_code == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_leads_nowhere(target: Target, status: int) -> None:
    """It passes as the answer that it is, without its Location, and no other host hears of a request."""
    async with FakeUp(_says(response(200, SECRET.encode()))) as other, engine(target, _leads_to(other.url, status)):
        answer, body, _ = await _ask(target, stream=False)
        assert (answer.status_code, body, "location" in answer.headers) == (status, b"{}", False)
        assert other.connections == 0
