"""Field case B78: names that strangers choose fill no status, no table and no memory."""

import asyncio
import contextlib
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

from iop.edge.registry import MAX_TURNED_AWAY
from iop.transport.seldom import MAX_EACH
from tests.fakes.hygiene import is_idle
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.raw_client import RawClient
from tests.fakes.stack import CHAT, Engine, Stack, answer_ok, chat, stack
from tests.fakes.until import until

MANY = 600
NODES = MAX_TURNED_AWAY + 36


def _word(size: int = 1024) -> str:
    return "".join(random.choices(string.ascii_letters + string.digits, k=size))


def _request(line: str, body: bytes, *headers: str) -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def _tables(s: Stack) -> dict[str, int]:
    """Entries of everything the Edge keeps by an id: an id of a stranger must make none of them grow."""
    core: Any = s.edge._core
    pool = core.door._admission._pool
    return {
        "tickets": len(core.door._tickets),
        "waiting": len(pool.line.waiting),
        "nodes": len(pool.fleet.nodes),
        "direct": len(core.direct._counters),
        "epochs": len(core._epochs) + len(core._lost_at) + len(core._adopted),
        "links": len(core.links._nodes) + len(core.links._claims) + len(core.links._open),
        "feed": len(core.feed._ring),
    }


def _size(s: Stack) -> int:
    """Bytes of the status, apart from the bounded list of who was turned away."""
    return len(json.dumps(s.status() | {"turned_away": [], "observed_at": "", "totals": {}}))


async def test_random_models_paths_and_agents_leave_no_trace(tmp_path: Path) -> None:
    """Hundreds of unknown models, paths and user agents: all refused, and every table is as it was."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        before, size = _tables(s), _size(s)
        client = await RawClient.connect(s.address())
        for number in range(1, MANY + 1):
            word = _word()
            line, body = (f"POST {CHAT}", chat(model=word)) if number % 3 else (f"GET /v1/{word}", b"")
            await client.send(_request(line, body, f"User-Agent: {word}", f"x-request-id: {word[:100]}"))
            await client.until(b"HTTP/1.1 404", number)
        client.close()
        await until(lambda: is_idle(s.status()))

        assert _tables(s) == before
        assert _size(s) == size


async def test_random_node_ids_are_a_bounded_list(tmp_path: Path) -> None:
    """More strangers on the link than the list holds, each with a long id: the newest stay, cut to what is shown."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        before = _tables(s)
        last = ""
        for _ in range(NODES):
            last = _word(512)
            node = await FakeNode.connect(s.address("nodes"))
            node.send(hello(last, token=_word(64)))
            await node.gone()
        refused = s.status()["turned_away"]
        await until(lambda: _tables(s) == before)

        assert len(refused) == MAX_TURNED_AWAY
        assert refused[-1]["node_id"] == last[:128]
        assert len(json.dumps(refused)) < MAX_TURNED_AWAY * 400


async def test_strangers_on_the_link_cost_a_bounded_number_of_log_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ever new ids, and first bytes that are no hello, from one address: a screen of warnings, not one for each try."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        caplog.clear()
        for number in range(3 * MAX_EACH):
            node = await FakeNode.connect(s.address("nodes"))
            node.send(hello(f"scan-{number}"))
            await node.gone()
            reader, writer = await asyncio.open_connection(*s.address("nodes"))
            writer.write(bytes((1, 0, 0, number, 0)))
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        assert len(caplog.records) == MAX_EACH
        assert {record.name for record in caplog.records} == {"iop.edge.links", "iop.transport.link"}
