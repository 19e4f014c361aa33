"""Field case B38, and which headers travel: spellings of keys, large headers, and both allow-lists on the wire."""

import hashlib
import logging
from pathlib import Path

import pytest

from tests.fakes.fake_up import JSON, Exchange, response
from tests.fakes.stack import CHAT, Engine, Stack, answer_ok, chat, stack

KEY = "sk-Right-0123456789"
LONG = "t" * 9 * 1024
AUTH = {
    "api_keys": [
        {"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest()} for name, key in (("k", KEY), ("long", LONG))
    ]
}
SPELLINGS = [
    ((f"Authorization: Bearer {KEY}",), 200),
    ((f"authorization: bearer {KEY}",), 200),
    ((f"AUTHORIZATION: BEARER   {KEY}",), 200),
    ((f"Authorization: Bearer {KEY}  ",), 200),
    ((f"Authorization: Bearer {LONG}",), 200),
    ((f"Authorization: Bearer {KEY}", "Cookie: " + "; ".join(f"c{n}={'v' * 400}" for n in range(30))), 200),
    ((f"Authorization: Bearer {KEY.lower()}",), 401),
    ((f"Authorization: Bearer {KEY} x",), 401),
    ((f"Authorization: Basic {KEY}",), 401),
    ((f"Authorization: {KEY}",), 401),
    ((f"x-api-key: {KEY}",), 401),
    ((f"api-key: {KEY}",), 401),
    (("Authorization:",), 401),
    (("Authorization: Bearer",), 401),
    ((), 401),
    ((f"Authorization: Bearer {KEY}", f"Authorization: Bearer {KEY}"), 400),
    ((f"Authorization: Bearer {KEY}", "Cookie: " + "c" * 70_000), 400),
]


async def test_b38_spellings_of_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Field case B38: scheme in any case, the token exact, one documented header; no token in any log or answer."""
    caplog.set_level(logging.DEBUG)
    async with stack(tmp_path, Engine(answer_ok), auth=AUTH, checks_request=False) as s:
        for headers, status in SPELLINGS:
            answer = await s.post(chat(), CHAT, *headers)
            assert answer.status == status, (headers[:1], answer.body)
            assert answer.headers["content-type"].startswith("application/json")
            assert KEY.encode() not in answer.body
        served = sum(status == 200 for _, status in SPELLINGS)
        assert s.totals("received", "completed") == (served, served)
        assert [exchange.field("authorization") for exchange in s.up.requests] == [None] * served
        assert [exchange.field("cookie") for exchange in s.up.requests] == [None] * served
    assert KEY not in caplog.text
    assert LONG not in caplog.text


REQUEST = {
    "Accept": ("text/event-stream", True),
    "User-Agent": ("sdk/1.0", True),
    "OpenAI-Beta": ("responses=v1", True),
    "X-Client-Request-Id": ("c-1", True),
    "x-request-id": ("r-1", True),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
    "tracestate": ("a=b", True),
    "Authorization": ("Bearer k", False),
    "Proxy-Authorization": ("Basic a", False),
    "Cookie": ("a=b", False),
    "x-api-key": ("k", False),
    "api-key": ("k", False),
    "X-Forwarded-For": ("10.0.0.1", False),
    "Forwarded": ("for=a", False),
    "Referer": ("http://a", False),
    "TE": ("trailers", False),
    "Trailer": ("x", False),
    "Keep-Alive": ("timeout=5", False),
    "OpenAI-Organization": ("org", False),
    "x-stainless-lang": ("python", False),
    "x-iop-provider": ("forged", False),
}
ANSWER = {
    "Retry-After": ("7", True),
    "retry-after-ms": ("700", True),
    "x-should-retry": ("false", True),
    "Cache-Control": ("no-store", True),
    "X-Accel-Buffering": ("no", True),
    "X-RateLimit-Remaining-Requests": ("3", True),
    "OpenAI-Processing-Ms": ("12", True),
    "Set-Cookie": ("a=b", False),
    "Server": ("uvicorn", False),
    "Keep-Alive": ("timeout=5", False),
    "WWW-Authenticate": ("Basic", False),
    "Access-Control-Allow-Origin": ("*", False),
    "Location": ("http://a", False),
    "Upgrade": ("h2c", False),
    "X-Powered-By": ("x", False),
    "x-iop-provider": ("forged", False),
    "x-iop-node": ("forged", False),
    "x-request-id": ("engine-1", False),
}


async def test_which_headers_travel(tmp_path: Path) -> None:
    """Each listed header arrives with its value, every other one stays behind, in both directions."""

    async def script(exchange: Exchange) -> None:
        sent = [(name, value) for name, (value, _) in ANSWER.items()]
        await exchange.send(response(429, b'{"error": {}}', [*JSON, *sent]))

    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(chat(), CHAT, *(f"{name}: {value}" for name, (value, _) in REQUEST.items()))
        got = s.up.requests[-1]
        for name, (value, travels) in REQUEST.items():
            assert (got.field(name) == value) is travels, name
        for name, (value, travels) in ANSWER.items():
            assert (answer.headers.get(name.lower()) == value) is travels, name
        assert (answer.headers["x-iop-provider"], answer.headers["x-request-id"]) == ("p1", "r-1")
        assert got.field("host") == f"127.0.0.1:{s.up.port}"
        assert got.field("accept-encoding") == "identity"


async def _refused(s: Stack, lines: tuple[str, ...], rest: bytes) -> int:
    """Send these lines and bytes; the status of the one answer, after which the connection is closed."""
    client = await s.connect()
    await client.send("\r\n".join((f"POST {CHAT} HTTP/1.1", "Host: localhost", *lines, "", "")).encode() + rest)
    status = (await client.answer()).status
    await client.ended()
    assert client.seen.count(b"HTTP/1.") == 1
    return status


async def test_ambiguous_framing_is_refused_and_closed(tmp_path: Path) -> None:
    """Lengths that two readers could take in two ways are a 400; a second request behind them is never read."""
    hidden = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(chat()), chat())
    length = f"Content-Length: {len(chat())}"
    cases = [
        (("Content-Length: 0", length), chat()),
        ((f"{length}, {len(chat())}",), chat()),
        (("Content-Length: -1",), chat()),
        (("Content-Length: 0x10",), chat()),
        ((length, "Transfer-Encoding: chunked"), chunked),
        (("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), chunked),
        (("Transfer-Encoding: chunked, identity",), chunked),
        (("Transfer-Encoding: xchunked",), chunked),
        (("Transfer-Encoding : chunked",), chunked),
        (("Transfer-Encoding: chunked",), b"-1\r\n" + chunked),
        (("Transfer-Encoding: chunked",), b"zz\r\n" + chunked),
    ]
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for lines, body in cases:
            assert await _refused(s, lines, body + hidden) == 400, lines
        assert s.totals("received") == (0,)
