"""The adapter of an OpenAI-compatible engine: bytes as they are, each end by its name."""

import asyncio
import gzip
import socket
import zlib

import pytest

from iop.adapters.contract import ProbeResult, RunEnd, RunRequest
from iop.adapters.openai_compat.adapter import OpenAICompat
from iop.domain.effects import Outcome
from iop.link.messages import EngineInstance
from iop.transport.engine_answer import EngineAnswer
from tests.fakes.fake_up import JSON, LAST_CHUNK, SSE, Exchange, FakeUp, chunk, event, head, response, stream_head
from tests.fakes.sink import KeptAnswer
from tests.fakes.until import until

COMPLETED = RunEnd(Outcome.COMPLETED)
TEXT = event({"choices": [{"index": 0, "delta": {"content": "é漢🙂"}}]})
DONE = event("[DONE]")
FAILED_EVENT = event({"error": {"message": "gone", "type": "server_error", "code": 500, "param": None}})


def make(url, *, api_key=None, **times):
    """Return an adapter for an endpoint."""
    return OpenAICompat(EngineInstance(name="e1", provider="other", endpoint=url, capacity=3), api_key=api_key, **times)


def ask(operation="chat.completions", **fields):
    """Return a request; its times are generous."""
    defaults = {"request_id": "r1", "stream": True, "body": b"{}", "timeout": 30.0, "idle_timeout": 30.0}
    return RunRequest(operation=operation, **{**defaults, **fields})


async def run(script, request=None, **options):
    """Run one request against an engine with this script; return the end, the sink and what the engine saw."""
    sink = KeptAnswer()
    async with FakeUp(script) as up:
        adapter = make(up.url, **options)
        try:
            end = await adapter.run(request or ask(), sink)
        finally:
            await adapter.close()
        return end, sink, up.requests[0]


def sends(*parts, close=False, reset=False):
    """Return a script that sends these bytes."""

    async def script(exchange: Exchange) -> None:
        for part in parts:
            await exchange.send(part)
        if reset:
            exchange.reset()
        elif close:
            exchange.close()

    return script


def test_contract():
    """Name and bound come from the instance."""
    adapter = make("http://127.0.0.1:1/v1")
    assert (adapter.name, adapter.type, adapter.max_concurrency) == ("e1", "openai_compat", 3)


async def test_what_the_engine_gets():
    """The body is sent byte for byte to the operation's path, with allowed headers and the engine's own key only."""
    client = (
        ("user-agent", "me"),
        ("authorization", "Bearer client"),
        ("cookie", "a=b"),
        ("host", "h"),
        ("accept", "*/*"),
        ("content-type", "application/x-www-form-urlencoded"),  # what `curl -d` says
        ("x-request-id", "theirs"),
    )
    body = b'{"model" : "m",\t"messages":[]}'
    request = ask("responses", headers=client, body=body, stream=False)
    end, _, seen = await run(sends(response()), request, api_key="engine-key")
    assert end == COMPLETED
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/responses", body)
    fields = {name.lower(): value for name, value in seen.fields}
    assert fields["authorization"] == "Bearer engine-key"
    assert fields["accept-encoding"] == "identity"
    assert fields["content-type"] == "application/json"
    assert fields["x-request-id"] == "r1"
    assert fields["user-agent"] == "me"
    assert "cookie" not in fields
    assert fields["host"].startswith("127.0.0.1:")


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 429, 307])
async def test_any_status_below_500_is_an_answer(status):
    """Field case B20: status, type, Retry-After and body of the engine pass as they are."""
    sent = response(status, b'{"error":"x"}', (*JSON, ("Retry-After", "7"), ("Set-Cookie", "a=b"), ("Server", "s")))
    end, sink, _ = await run(sends(sent))
    assert end == COMPLETED
    assert (sink.status, sink.data) == (status, b'{"error":"x"}')
    assert sink.headers == {"content-type": "application/json", "retry-after": "7"}


@pytest.mark.parametrize("status", [500, 503])
async def test_5xx_is_passed_on_and_counted_failed(status):
    """A 5xx is the engine's answer, but no success."""
    end, sink, _ = await run(sends(response(status, b"oops", (("Content-Type", "text/plain"),))))
    assert (end.outcome, end.failure) == (Outcome.FAILED, "status")
    assert (sink.status, sink.data) == (status, b"oops")


async def test_stream_bytes_pass_unchanged_one_byte_at_a_time():
    """Field case B13: characters cut over segments reach the reader as the same bytes."""
    stream = b": comment\r\n\r\n" + TEXT + DONE

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head())
        for position in range(len(stream)):
            await exchange.send_bytewise(chunk(stream[position : position + 1]))
        await exchange.send(LAST_CHUNK)

    end, sink, _ = await run(script)
    assert end == COMPLETED
    assert sink.data == stream


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity"])
async def test_coded_streams_are_decoded_as_they_come(coding):
    """Field case B19: an engine that compresses unasked is understood, event by event, and its header is dropped."""
    more = asyncio.Event()
    deflater = zlib.compressobj(wbits=31 if coding == "gzip" else 15)

    def code(data, flush):
        return data if coding == "identity" else deflater.compress(data) + deflater.flush(flush)

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head(200, (*SSE, ("Content-Encoding", coding))))
        await exchange.send(chunk(code(TEXT, zlib.Z_SYNC_FLUSH)))
        await more.wait()
        await exchange.send(chunk(code(DONE, zlib.Z_FINISH)) + LAST_CHUNK)

    sink = KeptAnswer()
    async with FakeUp(script) as up, asyncio.TaskGroup() as group:
        adapter = make(up.url)
        task = group.create_task(adapter.run(ask(), sink))
        await until(lambda: sink.data == TEXT)
        more.set()
        assert await task == COMPLETED
        await adapter.close()
    assert sink.data == TEXT + DONE
    assert "content-encoding" not in sink.headers


@pytest.mark.parametrize(
    ("coding", "body"), [("br", b"??"), ("gzip", b"plain"), ("gzip", gzip.compress(b"{}" * 99, mtime=0)[:-8])]
)
async def test_undecodable_answers_are_broken(coding, body):
    """Field case B19: what cannot be decoded is a failure, not garbage under a wrong label."""
    end, _, _ = await run(sends(response(200, body, (*JSON, ("Content-Encoding", coding)))))
    assert end.failure == "broken"


@pytest.mark.parametrize(
    ("operation", "parts", "failure"),
    [
        ("chat.completions", [TEXT, DONE], None),
        ("chat.completions", [TEXT], None),  # transformers sends no [DONE]; its transfer ends properly
        ("chat.completions", [TEXT, FAILED_EVENT, DONE], "error_event"),
        ("chat.completions", [FAILED_EVENT], "error_event"),
        ("responses", [event({"type": "response.completed", "sequence_number": 0, "response": {"id": "r"}})], None),
        ("responses", [event({"type": "response.incomplete", "sequence_number": 0, "response": {"id": "r"}})], None),
        ("responses", [event({"type": "response.created", "sequence_number": 0, "response": {"id": "r"}})], "broken"),
        (
            "responses",
            [event({"type": "response.failed", "sequence_number": 0, "response": {"id": "r"}})],
            "error_event",
        ),
    ],
)
async def test_ends_of_chunked_streams(operation, parts, failure):
    """A stream that ends properly is a success when its API says so; an error event never is."""
    end, sink, _ = await run(sends(stream_head(), *map(chunk, parts), LAST_CHUNK), ask(operation))
    assert end.failure == failure
    assert (end.outcome is Outcome.COMPLETED) == (failure is None)
    assert sink.data == b"".join(parts)


@pytest.mark.parametrize("operation", ["chat.completions", "responses"])
async def test_only_responses_streams_are_repaired(operation):
    """A numberless response event gets its number; the same bytes in a chat stream pass as they are."""
    bare = event({"type": "response.completed", "response": {"id": "r"}})
    end, sink, _ = await run(
        sends(stream_head(), chunk(bare[:-1]), chunk(bare[-1:] + DONE[:-2]), LAST_CHUNK), ask(operation)
    )
    assert end == COMPLETED
    number = b',"sequence_number":0' if operation == "responses" else b""
    assert sink.data == bare.replace(b"}\n\n", number + b"}\n\n") + DONE[:-2]


async def test_a_json_answer_of_responses_is_not_repaired():
    """Without a stream there is nothing to number."""
    body = b'{"type": "response.completed"}'
    assert (await run(sends(response(200, body)), ask("responses", stream=False)))[1].data == body


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    ("kind", "body", "failure"),
    [
        (SSE, TEXT + DONE, None),
        (SSE, TEXT, "broken"),
        (JSON, b'{"choices": []}', None),
        (JSON, b'{"choices": [', "broken"),
        (JSON, b"", "broken"),
    ],
)
async def test_ends_of_close_delimited_answers(version, kind, body, failure):
    """Field case B14: without a length, only the content tells a whole answer from a cut one."""
    end, sink, _ = await run(sends(head(200, kind, version=version), body, close=True))
    assert end.failure == failure
    assert sink.data == body


@pytest.mark.parametrize("how", [{"close": True}, {"reset": True}])
@pytest.mark.parametrize(
    "sent",
    [
        stream_head() + chunk(TEXT),
        stream_head() + chunk(TEXT)[:-9],
        head(200, (*JSON, ("Content-Length", "99"))) + b"{",
    ],
)
async def test_cut_answers_are_broken(sent, how):
    """Field cases B05, B14: chunked and counted bodies that end early are failures however they end."""
    end, sink, _ = await run(sends(sent, **how))
    assert end.outcome is Outcome.FAILED
    # a reset may overtake the bytes before it: then there was no status line either
    assert end.failure == "broken" if sink.status else end.failure == "reset"


@pytest.mark.parametrize("how", [{"close": True}, {"reset": True}])
async def test_no_status_line_is_a_reset(how):
    """A connection that ends before the status line is told as such, and the request is not sent again."""
    end, sink, _ = await run(sends(**how))
    assert (end.outcome, end.failure, sink.status) == (Outcome.FAILED, "reset", None)


async def test_refused_is_unreachable():
    """Nobody listens: unreachable."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        adapter = make(f"http://user:secret@127.0.0.1:{closed.getsockname()[1]}/v1")
        end = await adapter.run(ask(), KeptAnswer())
        probe = await adapter.probe()
        await adapter.close()
    assert end.failure == "unreachable"
    assert not probe.up
    assert not probe.silent
    assert "secret" not in f"{end}{probe}"


async def test_no_status_line_in_time():
    """An engine that says nothing for `timeout` ends the run, and sees its connection closed."""
    left = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.peer_left.wait()
        left.set()

    sink = KeptAnswer()
    async with FakeUp(script) as up:
        adapter = make(up.url)
        end = await adapter.run(ask(timeout=0.1), sink)
        await asyncio.wait_for(left.wait(), 20)
        await adapter.close()
    assert (end.failure, sink.status) == ("timeout", None)


async def test_silence_in_the_body():
    """An answer that falls silent for `idle_timeout` ends the run, and the engine sees its connection closed."""
    left = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(TEXT))
        await exchange.peer_left.wait()
        left.set()

    sink = KeptAnswer()
    async with FakeUp(script) as up:
        adapter = make(up.url)
        end = await adapter.run(ask(idle_timeout=0.2), sink)
        await asyncio.wait_for(left.wait(), 20)
        await adapter.close()
    assert (end.failure, sink.data) == ("timeout", TEXT)


async def test_a_slow_reader_is_not_the_engines_silence():
    """The idle limit measures the engine, not the time that the reader takes."""
    sink = KeptAnswer()
    sink.gate.clear()
    async with FakeUp(sends(stream_head(), chunk(TEXT), chunk(DONE), LAST_CHUNK)) as up:
        adapter = make(up.url)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(adapter.run(ask(idle_timeout=0.3), sink))
            await until(lambda: sink.status == 200)
            await asyncio.sleep(0.6)
            sink.gate.set()
        await adapter.close()
    assert task.result() == COMPLETED


@pytest.mark.parametrize(
    "sent", [b"", stream_head() + chunk(TEXT), head(200, (*JSON, ("Content-Length", "99"))) + b"{"]
)
async def test_cancel_reaches_the_engine(sent):
    """Field cases B02, B03: cancelling, before the head or within the body, closes the engine's connection at once."""
    left = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(sent)
        await exchange.peer_left.wait()
        left.set()

    sink = KeptAnswer()
    async with FakeUp(script) as up:
        adapter = make(up.url)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(adapter.run(ask(), sink))
            await until(lambda: sink.data if sent else up.requests)
            task.cancel()
        assert task.cancelled()
        await asyncio.wait_for(left.wait(), 20)
        await adapter.close()


async def test_a_close_that_fails_does_not_hide_the_end(monkeypatch):
    """Field case B05: the clean-up of a broken answer raises, and the end is told all the same."""
    closed, really_close = [], EngineAnswer.close

    def close(self):
        really_close(self)
        closed.append(self)
        raise RuntimeError("close failed")

    monkeypatch.setattr(EngineAnswer, "close", close)
    end, _, _ = await run(sends(stream_head(), chunk(TEXT), close=True))
    assert end.failure == "broken"
    assert len(closed) == 1


@pytest.mark.parametrize(("status", "up"), [(200, True), (401, True), (404, True), (500, False), (503, False)])
async def test_probe_by_status(status, up):
    """Any answer but 5xx is a sign of life; the model list is asked for with the key, nothing is posted."""
    async with FakeUp(sends(response(status))) as engine:
        adapter = make(engine.url, api_key="k")
        assert await adapter.probe() == ProbeResult(up=up, reason=None if up else f"status {status}")
        await adapter.close()
        seen = engine.requests[0]
    assert (seen.method, seen.path, seen.field("authorization"), seen.body) == ("GET", "/v1/models", "Bearer k", b"")


async def test_probe_of_a_silent_engine():
    """Silence is told apart from a refusal."""

    async def script(exchange: Exchange) -> None:
        await exchange.peer_left.wait()

    async with FakeUp(script) as engine:
        adapter = make(engine.url, probe_timeout=0.1)
        probe = await adapter.probe()
        await adapter.close()
    assert (probe.up, probe.silent) == (False, True)


async def test_probe_of_an_engine_that_hangs_up():
    """A reset is a failure of its own kind."""
    async with FakeUp(sends(close=True)) as engine:
        adapter = make(engine.url)
        probe = await adapter.probe()
        await adapter.close()
    assert not probe.up
    assert probe.reason.startswith("reset")
