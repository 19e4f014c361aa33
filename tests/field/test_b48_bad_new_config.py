"""Field case B48: a bad new config does not hurt the running one, and status tells the truth."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, response, stream_head
from tests.fakes.refreshing import check, refresh
from tests.fakes.stack import Engine, Stack, chat, stack

#: what can become of a good file: name -> its new text
BAD: dict[str, Callable[[str], str]] = {
    "syntax error": lambda good: good + "queue: {max_waiting: 3\n",
    "tab": lambda good: good + "queue:\n\tmax_waiting: 3\n",
    "unknown adapter": lambda good: good.replace("adapter: e1", "adapter: e9"),
    "duplicate provider": lambda good: good.replace("id: p2", "id: p1"),
    "half written": lambda good: good[: good.index("models:") + 3],
    "nothing written": lambda good: "",
    "unset variable": lambda good: good.replace("endpoint: http", "endpoint: ${ENGINE_URL}", 1),
    "misspelt key": lambda good: good.replace("capacity:", "capcity:", 1),
    "wrong type": lambda good: good.replace("capacity: 2", "capacity: two", 1),
    "model without provider": lambda good: good.replace("p2: m", "p9: m"),
}


async def serve(exchange: Exchange) -> None:
    """Answer as asked, whole or as a stream of two events."""
    if not exchange.json.get("stream"):
        return await exchange.send(response(200, b'{"object": "chat.completion", "choices": []}'))
    await exchange.send(stream_head() + chunk(event({"n": 1})))
    await asyncio.sleep(0)
    return await exchange.send(chunk(event("[DONE]")) + LAST_CHUNK)


@contextlib.asynccontextmanager
async def traffic(s: Stack) -> AsyncIterator[list[int]]:
    """Four clients that ask without end, every second time for a stream; their answers' status, 0 for a cut one."""
    answers: list[int] = []
    stop = asyncio.Event()

    async def client() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            answer = await s.post(chat(stream=number % 2 == 0))
            whole = not answer.cut and (number % 2 or b"[DONE]" in answer.body)
            answers.append(answer.status if whole else 0)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(client())
        try:
            yield answers
        finally:
            stop.set()


async def test_b48_each_bad_file_is_refused_and_nobody_notices(tmp_path: Path) -> None:
    """Field case B48: code 1, config check's findings, generation 1 serves, last_error is set; no failed request."""
    path = tmp_path / "edge.yaml"
    async with stack(tmp_path, Engine(serve, capacity=2), Engine(serve, capacity=2)) as s:
        good = path.read_text()
        async with traffic(s) as answers:
            for name, spoil in BAD.items():
                path.write_text(spoil(good))
                checked, findings = await check(path)
                assert checked == 1, name
                for mode in ("dry-run", "apply"):
                    code, body = await refresh(s.ready["admin"], path, mode=mode)
                    assert (code, body["findings"]) == (1, findings), name
                await _still_serves(s, answers, f"{path}:")
                assert path.read_text() == spoil(good)  # never written by us
        path.write_text(good)
        assert (await refresh(s.ready["admin"], path))[0] == 0
        assert s.status()["config"]["last_error"] is None
    assert set(answers) == {200}


@pytest.mark.parametrize("gone", ["deleted", "a folder"])
async def test_b48_a_file_that_cannot_be_read(tmp_path: Path, gone: str) -> None:
    """Field case B48: both commands end with code 2; SIGHUP tells it in last_error; no failed request."""
    path = tmp_path / "edge.yaml"
    async with stack(tmp_path, Engine(serve, capacity=2)) as s, traffic(s) as answers:
        path.unlink()
        if gone == "a folder":
            path.mkdir()
        assert (await check(path))[0] == 2
        assert (await refresh(s.ready["admin"], path))[0] == 2
        assert s.status()["config"]["last_error"] is None  # the Edge was not asked
        os.kill(os.getpid(), signal.SIGHUP)
        await s.until(lambda status: status["config"]["last_error"])
        await _still_serves(s, answers, str(path))
    assert set(answers) == {200}


async def _still_serves(s: Stack, answers: list[int], told: str) -> None:
    """Generation 1 answers further requests, and status says what was refused."""
    facts = s.status()["config"]
    assert facts["generation"] == 1
    assert facts["last_error"].startswith(told)
    seen = len(answers)
    await s.until(lambda _status: len(answers) > seen + 2)
