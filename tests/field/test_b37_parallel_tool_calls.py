"""Field case B37: parallel tool calls pass untouched, interleaved as sent, and come together at the SDK."""

import json
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, event, stream_head
from tests.fakes.stack import Engine, chat, stack

CALLS = {"call_a": ("weather", {"town": "서울"}), "call_b": ("time", {}), "call_c": ("sum", {"of": [1, 2.50]})}


def _piece(*calls: dict[str, Any]) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": None}
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def _interleaved() -> list[bytes]:
    """Each call's id and name once at its start, then the arguments of all three by turns."""
    texts = {call: json.dumps(arguments, ensure_ascii=False) for call, (_, arguments) in CALLS.items()}
    pieces = [
        _piece({"index": n, "id": call, "type": "function", "function": {"name": name, "arguments": ""}})
        for n, (call, (name, _)) in enumerate(CALLS.items())
    ]
    for at in range(0, max(map(len, texts.values())), 4):
        rest = [(n, text[at : at + 4]) for n, text in enumerate(texts.values()) if text[at : at + 4]]
        # the last one first, all in one event
        pieces.append(_piece(*({"index": n, "function": {"arguments": part}} for n, part in reversed(rest))))
    return [*pieces, event("[DONE]")]


async def _engine(exchange: Exchange) -> None:
    await exchange.send(stream_head())
    for piece in _interleaved():
        await exchange.send(chunk(piece))
    await exchange.send(LAST_CHUNK)


async def test_the_bytes_are_the_engines(tmp_path: Path) -> None:
    """Nothing is numbered anew, joined or reordered."""
    async with stack(tmp_path, Engine(_engine)) as s:
        assert (await s.post(chat(stream=True))).body == b"".join(_interleaved())
        await s.idle()
        assert s.totals("completed", "failed") == (1, 0)


async def test_the_sdk_gathers_three_calls(tmp_path: Path) -> None:
    """Its accumulator ends with three calls whose arguments are each the JSON that the engine meant."""
    async with (
        stack(tmp_path, Engine(_engine)) as s,
        AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0, timeout=20) as client,
        client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}]) as told,
    ):
        calls = (await told.get_final_completion()).choices[0].message.tool_calls
    gathered = {call.id: (call.function.name, json.loads(call.function.arguments)) for call in calls or ()}
    assert gathered == CALLS
