"""EngineHTTP against a raw TCP engine: what is sent, what is seen, and how each kind of break is named."""

import asyncio
import socket
import ssl

import pytest
import trustme

from iop.transport import engine_http
from iop.transport.engine_answer import EngineError
from iop.transport.engine_http import EngineHttp
from tests.fakes.engine_client import fetch, read_all
from tests.fakes.fake_up import JSON, LAST_CHUNK, Exchange, FakeUp, chunk, head, response, stream_head
from tests.fakes.until import until

DEADLINE = 20.0
CLOSE = ("Connection", "close")


async def test_request_goes_out_as_given():
    """Header names keep their spelling, nothing is added but Host and length."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(response(200, b'{"a":1}'))

    seen, answer, body = await fetch(
        script, body=b'{"x": 2}', headers=[("X-ThinG", "v"), ("Accept-Encoding", "identity")]
    )
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/chat/completions", b'{"x": 2}')
    assert ("X-ThinG", "v") in seen.fields
    assert sorted(name.lower() for name, _ in seen.fields) == [
        "accept-encoding", "content-length", "host", "x-thing",
    ]  # fmt: skip
    assert (answer.status, body, answer.ends_with_connection) == (200, b'{"a":1}', False)


async def test_eight_mebibytes_arrive_whole():
    """Field case B28: a large body is sent with its length and arrives byte for byte."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(response())

    body = bytes(range(256)) * 4 * 1024 * 8
    seen, _, _ = await fetch(script, body=body)
    assert seen.body == body


async def test_redirects_are_answers():
    """A redirect is the engine's answer; nobody follows it."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(response(307, b"", (("Location", "http://127.0.0.1:1/"),)))

    _, answer, _ = await fetch(script)
    assert answer.status == 307


async def test_cookies_are_forgotten():
    """A cookie that an engine sets never comes back to it."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(response(200, b"{}", (("Set-Cookie", "a=b"),)))

    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        for _ in range(2):
            await read_all(await http.request("GET", "models", ()))
        await http.close()
        assert up.requests[1].field("Cookie") is None


async def test_environment_proxies_are_not_used(monkeypatch):
    """A proxy of the environment does not come between node and engine."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    async def script(exchange: Exchange) -> None:
        await exchange.send(response())

    _, answer, _ = await fetch(script)
    assert answer.status == 200


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_connection_lost_before_a_status_is_a_reset_and_not_retried(how):
    """A POST whose connection ends before the status line is reported, never sent a second time."""

    async def script(exchange: Exchange) -> None:
        getattr(exchange, how)()

    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        with pytest.raises(EngineError) as caught:
            await http.request("POST", "responses", (), b"{}")
        await http.close()
        assert caught.value.failure == "reset"
        assert (len(up.requests), up.connections) == (1, 1)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1", "http://h:99999/v1", "ftp://h/"]
)
async def test_no_connection_is_unreachable(endpoint):
    """Refused, unknown and nonsensical addresses are told without the URL."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        http = EngineHttp(endpoint.format(port=closed.getsockname()[1]))
        with pytest.raises(EngineError) as caught:
            await http.request("POST", "responses", (), b"{}")
        await http.close()
    assert caught.value.failure == "unreachable"
    assert "://" not in caught.value.detail


async def post(http):
    """Send one request; return the body of its answer."""
    return await read_all(await http.request("POST", "responses", (), b"{}"))


class Steps:
    """A script that sends, for each request in turn, what the next step says; the last one repeats."""

    def __init__(self, *steps):
        self.steps = list(steps)

    async def __call__(self, exchange: Exchange) -> None:
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, str):
            getattr(exchange, step)()
        else:
            await exchange.send(step)


@pytest.mark.parametrize(
    "sent",
    [
        response(),
        stream_head() + chunk(b"{}") + LAST_CHUNK,
        head(103) + response(),
        head(204),
        head(200, (*JSON, ("Connection", "keep-alive"), ("Content-Length", "2")), version="1.0") + b"{}",
    ],
)
async def test_a_connection_is_used_again(sent):
    """An answer that ended by its own framing leaves its connection to the next request."""
    async with FakeUp(Steps(sent)) as up:
        http = EngineHttp(up.url)
        assert len({await post(http) for _ in range(3)}) == 1
        await http.close()
        assert (len(up.requests), up.connections) == (3, 1)


@pytest.mark.parametrize(
    "sent",
    [
        response(200, b"{}", (*JSON, CLOSE)),
        head(200, (*JSON, ("Content-Length", "2")), version="1.0") + b"{}",
        response() + b"x",
        response() + response(404, b"[]"),
        response(200, b"{}", (*JSON, CLOSE)) + b"x",
    ],
)
async def test_a_connection_that_may_have_more_to_say_is_not_used_again(sent):
    """HTTP/1.0, `close` and bytes behind the answer: the next request has a connection of its own."""
    async with FakeUp(Steps(sent)) as up:
        http = EngineHttp(up.url)
        for _ in range(2):
            assert await post(http) == b"{}"
        await http.close()
        assert (len(up.requests), up.connections) == (2, 2)


async def test_an_idle_connection_on_which_bytes_come_is_dropped():
    """What nobody asked for is never taken for the next answer."""
    go = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(response())
        await go.wait()
        await exchange.send(response(404, b"[]"))

    async with FakeUp(script) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        await post(http)
        go.set()
        await up.requests[0].peer_left.wait()
        assert await post(http) == b"{}"
        await http.close()
        assert up.connections == 2


async def test_bytes_that_nobody_has_read_yet_are_not_the_next_answer():
    """A second answer that lies in the socket while this process was busy belongs to no request of ours."""
    async with FakeUp(Steps(response())) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        await post(http)
        await up.requests[0].send(response(404, b"evil"))  # the loop has no turn to read it
        assert await post(http) == b"{}"
        await http.close()
        assert (len(up.requests), up.connections) == (2, 2)


@pytest.mark.parametrize("sent", [response() + b"x", response() + response(404, b"[]")])
async def test_an_engine_that_says_too_much_gets_a_connection_for_each_request(sent, caplog):
    """Once seen, nothing of it is kept any more, and the log says so once."""
    async with FakeUp(Steps(sent, response())) as up:
        http = EngineHttp(up.url)
        for _ in range(4):
            assert await post(http) == b"{}"
        await http.close()
        assert (len(up.requests), up.connections) == (4, 4)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_the_rest_of_an_answer_spoils_one_request_at_most():
    """An engine whose length is too small: what it sends late ends the connection, and no further one is shared."""
    async with FakeUp(Steps(response(), b" tail" + response(), response())) as up:
        http = EngineHttp(up.url)
        await post(http)
        with pytest.raises(EngineError) as caught:
            await post(http)
        assert caught.value.failure == "broken"
        for _ in range(3):
            assert await post(http) == b"{}"
        await http.close()
        assert (len(up.requests), up.connections) == (5, 4)


async def test_who_waits_for_an_answer_is_told_when_its_client_is_closed():
    """Neither the head nor the rest of a body is waited for."""
    async with FakeUp(Steps(stream_head() + chunk(b"{}"), stream_head() + chunk(b"{}"))) as up:
        http = EngineHttp(up.url)
        answer = await http.request("POST", "responses", (), b"{}")
        reading = asyncio.ensure_future(read_all(answer))
        await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE):
            await http.close()
            with pytest.raises(EngineError) as caught:
                await reading
        assert caught.value.failure == "broken"


async def test_an_engine_that_closes_its_idle_connections_fails_no_request():
    """Each time it closes, the next request goes by a new connection."""
    async with FakeUp(Steps(response())) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        for _ in range(3):
            await post(http)
            up.requests[-1].close()
            await until(lambda: not http._connections)
        await http.close()
        assert (len(up.requests), up.connections) == (3, 3)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_used_connection_that_is_lost_before_a_byte_is_asked_again_once(how):
    """The engine closed it while the request was on its way: the client never hears of that."""
    async with FakeUp(Steps(response(), how, response(200, b"again"))) as up:
        http = EngineHttp(up.url)
        assert [await post(http), await post(http)] == [b"{}", b"again"]
        await http.close()
        assert (len(up.requests), up.connections) == (3, 2)


async def test_a_used_connection_that_is_lost_after_a_while_is_not_asked_again(monkeypatch):
    """The engine has worked on that request: it is for the line to say where it goes next."""
    monkeypatch.setattr(engine_http, "CLOSED_WITHIN", -1.0)
    async with FakeUp(Steps(response(), "close", response())) as up:
        http = EngineHttp(up.url)
        await post(http)
        with pytest.raises(EngineError) as caught:
            await post(http)
        await http.close()
        assert (caught.value.failure, len(up.requests)) == ("reset", 2)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_it_is_not_asked_a_third_time(how):
    """A new connection that is lost, too, is the engine's doing."""
    async with FakeUp(Steps(response(), how)) as up:
        http = EngineHttp(up.url)
        await post(http)
        with pytest.raises(EngineError) as caught:
            await post(http)
        await http.close()
        assert caught.value.failure == "reset"
        assert (len(up.requests), up.connections) == (3, 2)


async def test_nothing_is_asked_again_once_a_byte_came():
    """A used connection that is lost within the status line: the engine has begun to answer."""

    async def script(exchange: Exchange) -> None:
        if len(up.requests) == 1:
            await exchange.send(response())
        else:
            await exchange.send(b"HTTP/1.1 2")
            exchange.close()

    async with FakeUp(script) as up:
        http = EngineHttp(up.url)
        await post(http)
        with pytest.raises(EngineError) as caught:
            await post(http)
        await http.close()
        assert caught.value.failure == "broken"
        assert (len(up.requests), up.connections) == (2, 1)


async def test_an_answer_that_overtakes_its_request_ends_the_connection():
    """The rest of a body that an engine did not want is not sent in front of the next request."""
    answered = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response(413))
        await writer.drain()
        await answered.wait()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        http = EngineHttp(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        answer = await http.request("POST", "responses", (), bytes(8_000_000))
        assert (answer.status, await read_all(answer)) == (413, b"{}")
        assert http._idle == []
        answered.set()
        await http.close()


async def test_an_idle_connection_is_closed_before_its_engine_would(monkeypatch):
    """The sweep closes it, and one that was overlooked is not used."""
    monkeypatch.setattr(engine_http, "_SWEEP", 0.01)
    async with FakeUp(Steps(response())) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        await post(http)
        assert not up.requests[0].peer_left.is_set()
        monkeypatch.setattr(engine_http, "KEPT_FOR", 0.0)
        await up.requests[0].peer_left.wait()
        await until(lambda: http._sweeper is None)
        monkeypatch.setattr(engine_http, "_SWEEP", 60.0)
        await post(http)
        await post(http)
        await http.close()
        assert up.connections == 3


async def test_so_many_are_kept_and_not_more():
    """As many idle connections as the engine has slots; the others are closed at the end of their answer."""
    go = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await go.wait()
        await exchange.send(response())

    async with FakeUp(script) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url, keep=2)
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(post(http))
            await until(lambda: len(up.requests) == 5)
            go.set()
        await until(lambda: up.peers_left == 3)
        assert len(http._idle) == 2
        await http.close()
        await until(lambda: up.peers_left == 5)


async def test_a_request_that_goes_once():
    """A probe asks by a connection of its own, says so, and leaves none behind."""
    async with FakeUp(Steps(response())) as up:
        http = EngineHttp(up.url)
        await post(http)
        await read_all(await http.request("GET", "models", (), once=True))
        await post(http)
        await http.close()
        assert up.connections == 2
        assert [seen.field("Connection") for seen in up.requests] == [None, "close", None]


@pytest.mark.parametrize("first", [[], [response()]])
async def test_no_status_line_in_time(first):
    """The limit holds on a new connection and on a used one, and the engine sees that it was left."""
    async with FakeUp(Steps(*first, b"")) as up, asyncio.timeout(DEADLINE):
        http = EngineHttp(up.url)
        for _ in first:
            await post(http)
        with pytest.raises(TimeoutError):
            await http.request("POST", "responses", (), b"{}", within=0.05)
        await up.requests[-1].peer_left.wait()
        await http.close()


async def test_no_connection_in_time(monkeypatch):
    """An address that swallows what is sent to it is unreachable after the time for connecting."""

    async def swallow(addresses, **options):
        await asyncio.Event().wait()

    monkeypatch.setattr(engine_http, "start_connection", swallow)
    http = EngineHttp("http://127.0.0.1:1/v1", connect_timeout=0.05)
    with pytest.raises(EngineError) as caught:
        await http.request("POST", "responses", (), b"{}", within=DEADLINE)
    await http.close()
    assert (caught.value.failure, caught.value.detail) == ("unreachable", "127.0.0.1:1: no connection within 0.05 s")


async def test_a_name_is_looked_up():
    """An engine may listen on one of the addresses of its name only."""
    async with FakeUp(Steps(response())) as up:
        http = EngineHttp(f"http://localhost:{up.port}/v1")
        assert await post(http) == b"{}"
        await http.close()
        assert up.requests[0].field("Host") == f"localhost:{up.port}"


async def test_a_header_with_a_line_break_is_not_sent():
    """A key file of two lines cannot smuggle a header in, and the key is not told."""
    http = EngineHttp("http://127.0.0.1:1/v1")
    with pytest.raises(EngineError) as caught:
        await http.request("GET", "models", [("authorization", "Bearer k\r\nx: y")])
    await http.close()
    assert "Bearer" not in caught.value.detail


async def test_tls(monkeypatch, tmp_path):
    """An https engine is served by kept connections, too; one whose certificate nobody vouches for is unreachable."""
    authority, connections = trustme.CA(), []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while not reader.at_eof():
            try:
                await reader.readuntil(b"\r\n\r\n{}")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            writer.write(response())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    engine_http._tls.cache_clear()
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        http = EngineHttp(url)
        with pytest.raises(EngineError) as caught:
            await post(http)
        assert caught.value.failure == "unreachable"
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        engine_http._tls.cache_clear()
        assert [await post(http) for _ in range(3)] == [b"{}"] * 3
        assert len(connections) == 1
        await http.close()
    engine_http._tls.cache_clear()
