"""Codex CLI, unmodified: against real llama.cpp servers, and against engines that fail in its hands."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.load import idle
from tests.clients.programs import Codex, Npm, texts
from tests.cluster.harness import Cluster
from tests.fakes.fake_up import LAST_CHUNK, Exchange, Script, chunk, event, stream_head
from tests.fakes.stack import Engine, Stack, stack
from tests.fakes.until import until

ONCE = {"request_max_retries": 0, "stream_max_retries": 0}


def codex(npm: Npm, folder: Path) -> Codex:
    """Codex with a home in the test's folder."""
    return Codex(npm.modules / ".bin" / "codex", folder)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_turn_over_llama_cpp(pool: Cluster, npm: Npm, tmp_path: Path) -> None:
    """`codex exec` sends its prompt, answers with the engine's text and exit code 0; it took one slot once."""
    before = (await pool.status())["totals"]
    mine = codex(npm, tmp_path)
    # Codex's own instructions are 10,000 tokens of the tiny model: a minute of work on a loaded machine
    mine.configure(pool.openai, "short", instructions="Answer in few words.")
    code, events = await mine.run("say hi")

    assert (code, events[-1]["type"]) == (0, "turn.completed"), events
    assert [text.isascii() and len(text) > 100 for text in texts(events)] == [True]
    assert events[-1]["usage"]["input_tokens"] > 1000
    await idle(pool)  # Codex leaves with the last event, and the Edge may count a moment later
    after = (await pool.status())["totals"]
    assert [after[name] - before[name] for name in ("received", "completed", "failed", "returned")] == [1, 1, 0, 0]


ITEM = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
TEXT = {"type": "output_text", "text": "Hello from the engine.", "annotations": []}


def answer(status: str, output: list[Any]) -> dict[str, Any]:
    """A response object."""
    return {"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output}


CREATED = event({"type": "response.created", "sequence_number": 0, "response": answer("in_progress", [])})
DONE = {**ITEM, "content": [TEXT]}
WHOLE = (
    CREATED
    + event({"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": DONE})
    + event({"type": "response.completed", "sequence_number": 2, "response": answer("completed", [DONE])})
)


async def answers(exchange: Exchange) -> None:
    """An engine that answers Codex."""
    await exchange.send(stream_head() + chunk(WHOLE) + LAST_CHUNK)


async def dies(exchange: Exchange) -> None:
    """An engine that is gone after its first event."""
    await exchange.send(stream_head() + chunk(CREATED))
    exchange.close()


async def is_out_of_memory(exchange: Exchange) -> None:
    """An engine that tells of its own failure in the stream."""
    error = event({"error": {"message": "out of memory", "type": "server_error", "code": 500}})
    await exchange.send(stream_head() + chunk(CREATED + error) + LAST_CHUNK)


@contextlib.asynccontextmanager
async def fake(folder: Path, npm: Npm, script: Script, **options: Any) -> AsyncIterator[tuple[Stack, Codex]]:
    """The runtime over a scripted engine of one slot, and Codex with its config, which does not try again."""
    async with stack(folder, Engine(script), checks_request="auth" not in options, **options) as s:
        mine = codex(npm, folder)
        mine.configure(s.base_url, "m", **ONCE)
        yield s, mine


@pytest.mark.parametrize(("script", "reason"), [(dies, "p1 broke off"), (is_out_of_memory, "out of memory")])
async def test_a_failure_in_mid_stream_is_shown(tmp_path: Path, npm: Npm, script: Script, reason: str) -> None:
    """What iop or the engine says of a failure after the first byte is what Codex shows; exit code 1, no answer."""
    async with fake(tmp_path, npm, script) as (s, mine):
        code, events = await mine.run("say hi")
        assert (code, events[-1]["type"], texts(events)) == (1, "turn.failed", [])
        assert reason in events[-1]["error"]["message"], events
        assert s.totals("completed", "failed") == (0, 1)


async def test_an_unknown_model_is_shown(tmp_path: Path, npm: Npm) -> None:
    """A 404 of iop ends the turn at once, with its words."""
    async with fake(tmp_path, npm, answers) as (s, mine):
        mine.configure(s.base_url, "nobody")
        code, events = await mine.run("say hi")
        assert (code, events[-1]["type"]) == (1, "turn.failed")
        assert "'nobody' does not exist" in events[-1]["error"]["message"], events
        assert s.totals("received") == (0,)


async def test_a_wrong_key_is_shown(tmp_path: Path, npm: Npm) -> None:
    """A 401 of iop ends the turn; the key itself is in no message."""
    async with fake(tmp_path, npm, answers, auth={"api_keys": [{"name": "k", "sha256": "0" * 64}]}) as (s, mine):
        code, events = await mine.run("say hi")
        assert (code, events[-1]["type"]) == (1, "turn.failed")
        assert "401" in events[-1]["error"]["message"], events
        assert s.totals("received") == (0,)


async def test_codex_comes_back_when_the_line_was_full(tmp_path: Path, npm: Npm) -> None:
    """Refused with 429 and Retry-After it tries again, and answers once there is room."""

    async def waits(exchange: Exchange) -> None:
        await exchange.peer_left.wait()

    async with fake(tmp_path, npm, waits, queue={"max_waiting": 1}) as (s, mine):
        mine.configure(s.base_url, "m")
        holder = await s.open()
        await s.until(lambda status: status["totals"]["in_flight"] == 1)
        waiter = await s.open()
        await s.until(lambda status: status["totals"]["queued"] == 1)
        async with mine.start("say hi") as run:
            await s.until(lambda status: status["totals"]["refused"] >= 1)
            s.up.script = answers
            waiter.close()
            holder.close()
            events = await run.lines()
            assert (run.child.returncode, texts(events)) == (0, ["Hello from the engine."])


async def test_two_turns_on_one_slot(tmp_path: Path, npm: Npm) -> None:
    """Two `codex exec` at once on one slot: one waits in line, kept alive, and both answer."""
    go = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await go.wait()
        await answers(exchange)

    async with fake(tmp_path, npm, slow, stream={"keepalive_after": "100ms"}) as (s, mine):
        async with mine.start("say hi") as first, mine.start("say hi") as second:
            await s.until(lambda status: (status["totals"]["in_flight"], status["totals"]["queued"]) == (1, 1))
            go.set()
            for run in (first, second):
                assert texts(await run.lines()) == ["Hello from the engine."]
                assert run.child.returncode == 0
        assert (s.up.hwm, *s.totals("received", "completed")) == (1, 2, 2)


async def test_what_codex_asks_for(tmp_path: Path, npm: Npm) -> None:
    """Field cases B26 and B29: it starts without error over iop's lists, and the engine gets plain JSON."""
    async with fake(tmp_path, npm, answers) as (s, mine):
        code, events = await mine.run("say hi")
        assert (code, texts(events)) == (0, ["Hello from the engine."])
        (exchange,) = s.up.requests
        assert (exchange.path, exchange.json["model"], exchange.json["stream"]) == ("/v1/responses", "m", True)
        assert len(exchange.body) > 30_000
        assert exchange.field("content-encoding") is None
        assert exchange.field("originator") is None


async def test_ending_codex_ends_its_request(tmp_path: Path, npm: Npm) -> None:
    """Codex killed in the middle of a turn: the engine is left and the slot is free."""

    async def begins(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(CREATED))
        await exchange.peer_left.wait()

    async with fake(tmp_path, npm, begins) as (s, mine):
        async with mine.start("say hi"):
            await until(lambda: s.up.running == 1)
        await s.idle()
        assert s.totals("cancelled") == (1,)
        assert s.up.peers_left == 1
