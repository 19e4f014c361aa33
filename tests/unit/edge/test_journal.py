"""The line that each request leaves in the log, however it ended."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from iop.domain.effects import Lease
from iop.edge.journal import Entry
from iop.link.messages import End, Head, Run
from tests.fakes.edge_under_test import EdgeUnderTest, edge_under_test
from tests.fakes.raw import raw, request
from tests.fakes.until import until

EVENTS = (("content-type", "text/event-stream"),)
AGENT = {"model": "agent", "messages": []}


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="iop.edge.journal")


def lines(caplog: pytest.LogCaptureFixture) -> list[Mapping[str, Any]]:
    """Fields of the lines written so far."""
    return [record.fields for record in caplog.records if record.name == "iop.edge.journal"]  # type: ignore[attr-defined]


async def the_line(caplog: pytest.LogCaptureFixture) -> Mapping[str, Any]:
    """The one line, once it is there."""
    await until(lambda: lines(caplog))
    (found,) = lines(caplog)
    return found


def pick(line: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Some of its fields."""
    return tuple(line[name] for name in names)


async def test_a_pool_answer(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """Who asked for what, who gave it, how it ended and how long each part took."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.session.post(
        edge.url("/v1/chat/completions?debug=1"), json={"model": "m", "messages": []}, headers={"x-request-id": "r1"},
    ))  # fmt: skip
    node.answer((await edge.run(node)).run, b'{"a": 1}')
    await asked
    line = await the_line(caplog)
    assert pick(line, "request_id", "method", "path") == ("r1", "POST", "/v1/chat/completions")
    assert pick(line, "route", "model", "stream", "key") == ("pool", "m", False, None)
    assert pick(line, "provider_id", "node_id", "outcome", "reason") == ("p1", "n1", "completed", None)
    assert pick(line, "status", "error", "bytes_out", "queue_ms") == (200, None, 8, 0)
    assert 0 <= line["first_byte_ms"] <= line["total_ms"]
    assert 0 <= line["hold_ms"] <= line["total_ms"]
    await node.close()


async def test_a_direct_answer(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """The node stands for the provider; there was no line to wait in."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post(body=AGENT))
    node.answer((await edge.run(node)).run)
    await asked
    line = await the_line(caplog)
    assert pick(line, "route", "model", "provider_id", "node_id") == ("direct", "agent", None, "n1")
    assert pick(line, "outcome", "status", "queue_ms") == ("completed", 200, None)
    await node.close()


async def test_a_stream_that_breaks_off(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """The client got 200 and an error event: failed, with the kind of failure and the code it was told."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post(body={"model": "m", "messages": [], "stream": True}))
    run = (await edge.run(node)).run
    node.send(Head(run=run, status=200, headers=EVENTS))
    node.send_body(run, b'data: {"x": 1}\n\n')
    node.send(End(run=run, outcome="failed", failure="broken", detail="secret detail"))
    answer = await asked
    with pytest.raises(aiohttp.ClientPayloadError):
        await answer.read()
    line = await the_line(caplog)
    assert pick(line, "stream", "outcome", "reason") == (True, "failed", "broken")
    assert pick(line, "status", "error") == (200, "upstream_broken")
    assert line["bytes_out"] > len(b'data: {"x": 1}\n\n')
    assert "secret" not in str(line)
    await node.close()


async def test_an_engines_own_refusal_is_its_answer(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """Its status is the line's, and no error of iop's is told; its words are nowhere."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post())
    run = (await edge.run(node)).run
    node.send(Head(run=run, status=401))
    node.send_body(run, b'{"error": {"message": "bad key sk-1", "code": "bad_key"}}', end=True)
    node.send(End(run=run, outcome="completed"))
    await asked
    line = await the_line(caplog)
    assert pick(line, "outcome", "status", "error") == ("completed", 401, None)
    assert "bad" not in str(line)
    await node.close()


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/chat/completions", b"{", ("none", None, "refused", 400, "invalid_json")),
        ("/v1/chat/completions", b'{"model": "no", "messages": []}', ("none", "no", "refused", 404, "model_not_found")),
        ("/v1/chat/completions", b'{"model": "agent", "messages": []}',
         ("direct", "agent", "refused", 503, "node_offline")),
        ("/nowhere", b"", ("none", None, "refused", 404, "not_found")),
    ],
)  # fmt: skip
async def test_a_refusal(
    edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture, path: str, body: bytes, expected: tuple[object, ...]
) -> None:
    """Before or after it had a route: status and code as they were told."""
    await edge.session.post(edge.url(path), data=body)
    assert pick(await the_line(caplog), "route", "model", "outcome", "status", "error") == expected


async def test_a_foreign_host_and_a_strange_expectation(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """What is refused before any handler has its line, too."""
    await raw(*edge.address("openai"), b"GET /v1/models HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n")
    await raw(*edge.address("openai"), request("/v1/responses", b"{}", headers=("Expect: tea",)))
    found = [pick(line, "outcome", "status", "error") for line in lines(caplog)]
    assert found == [("refused", 400, "invalid_host"), ("refused", 400, "invalid_body")]


async def test_a_wait_that_ends_without_a_slot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A wait that expired is told with its code; who leaves the line has got nothing, and is told as abandoned."""
    async with edge_under_test(tmp_path, queue={"max_wait": "300ms"}) as edge:
        node = await edge.node()
        held = [asyncio.ensure_future(edge.post()) for _ in range(2)]
        await edge.run(node, 2)
        assert (await edge.post()).status == 503
        leaver = asyncio.ensure_future(edge.post())
        await until(lambda: edge.load() == (2, 1))
        leaver.cancel()
        await until(lambda: len(lines(caplog)) == 2)
        expired, left = lines(caplog)
        assert pick(expired, "outcome", "status", "error", "provider_id") == ("expired", 503, "queue_timeout", None)
        assert pick(left, "route", "outcome", "status", "error") == ("pool", "abandoned", None, None)
        for run in node.all(Run):
            node.answer(run.run)
        await asyncio.gather(*held)
        await node.close()


async def test_a_client_that_leaves_its_run(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """Cancelled, as the event of its end says it later."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post())
    run = (await edge.run(node)).run
    asked.cancel()
    line = await the_line(caplog)
    assert pick(line, "outcome", "reason", "provider_id", "status") == ("cancelled", "client_left", "p1", None)
    node.send(End(run=run, outcome="cancelled"))
    await until(lambda: edge.load() == (0, 0))
    await node.close()


async def test_a_provider_that_gives_back_is_not_named(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """A request that no provider could be reached for failed; whoever was tried has not had it."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post())
    run = (await edge.run(node)).run
    node.send(End(run=run, outcome="failed", failure="unreachable", detail="refused"))
    await asked
    line = await the_line(caplog)
    assert pick(line, "outcome", "status", "error") == ("failed", 502, "upstream_unreachable")
    assert pick(line, "provider_id", "hold_ms") == (None, None)
    await node.close()


async def test_the_keys_name_and_never_the_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A right key is told by its configured name, a wrong one not at all."""
    digest = hashlib.sha256(b"the-key").hexdigest()
    async with edge_under_test(tmp_path, auth={"api_keys": [{"name": "alice", "sha256": digest}]}) as edge:
        for key in ("the-key", "wrong-key"):
            await edge.session.get(edge.url("/v1/models"), headers={"Authorization": f"Bearer {key}"})
        right, wrong = lines(caplog)
    assert pick(right, "key", "outcome", "status", "route") == ("alice", "answered", 200, "none")
    assert pick(wrong, "key", "outcome", "error") == (None, "refused", "invalid_api_key")
    assert "-key" not in str([right, {**wrong, "error": ""}])


async def test_polls_are_told_at_debug_only(edge: EdgeUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """Health, status and metrics are asked for all day; a change through the admin port is told."""
    for path, port in (("/healthz", "openai"), ("/readyz", "admin"), ("/status", "admin"), ("/metrics", "admin")):
        await edge.session.get(edge.url(path, port))
    assert lines(caplog) == []
    await edge.session.put(edge.url("/nodes/n1/drain", "admin"), json={"lease_s": 1})
    assert pick(await the_line(caplog), "method", "path", "status", "error") == (
        "PUT", "/nodes/n1/drain", 401, "invalid_api_key",
    )  # fmt: skip


def test_times_are_told_from_their_own_begin() -> None:
    """Hold from the slot, first byte from the whole request, total from the head; none where there was none."""
    entry = Entry(began=10.0)
    assert pick(entry.fields(11.0), "total_ms", "hold_ms", "first_byte_ms") == (1000, None, None)
    entry.granted(Lease(1, "r", "m", "p", "n", 1, waited=0.25))
    entry.given_at, entry.whole_at, entry.answered_at = 12.0, 11.0, 12.5
    told = pick(entry.fields(13.0), "total_ms", "hold_ms", "first_byte_ms", "queue_ms")
    assert told == (3000, 1000, 1500, 250)
