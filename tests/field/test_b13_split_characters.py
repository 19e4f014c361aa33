"""Field case B13: characters of several bytes, one byte per segment."""

import hashlib
import json
from pathlib import Path

import pytest

from iop.openai.paths import Operation
from iop.openai.sse import EventSplitter, parse_event
from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, SSE, Exchange, chunk, head, stream_head
from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, chat, stack

TEXT = "déjà vu — 統一碼、한국어 🦙👩‍🚀 𐍈"
EVENT = json.dumps({"choices": [{"index": 0, "delta": {"content": TEXT}}]}, ensure_ascii=False)
STREAM = f": ünïcode\n\ndata: {EVENT}\r\n\r\ndata:{EVENT}\n\ndata: [DONE]\n\n".encode()
BYTEWISE = f"""import sys, time
sys.stdin.read()
for byte in {TEXT.encode()!r}:
    sys.stdout.buffer.write(bytes([byte])); sys.stdout.buffer.flush(); time.sleep(0.001)
"""


async def _a_chunk_per_byte(exchange: Exchange) -> None:
    await exchange.send_bytewise(stream_head())
    for position in range(len(STREAM)):
        await exchange.send_bytewise(chunk(STREAM[position : position + 1]))
    await exchange.send_bytewise(LAST_CHUNK)


async def _until_closed(exchange: Exchange) -> None:
    await exchange.send(head(200, SSE, version="1.0"))
    await exchange.send_bytewise(STREAM)
    exchange.close()


@pytest.mark.parametrize("script", [_a_chunk_per_byte, _until_closed])
async def test_b13_the_engines_bytes_arrive_unchanged(tmp_path: Path, script) -> None:
    """Field case B13: what the client gets through Edge and node has the engine's sha256."""
    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(chat(TEXT, stream=True))
        assert not answer.cut
        assert hashlib.sha256(answer.body).digest() == hashlib.sha256(STREAM).digest()
        assert s.up.requests[0].body == chat(TEXT, stream=True)
        assert s.totals("completed") == (1,)


@pytest.mark.parametrize("operation", ["chat.completions", "responses"])
async def test_b13_an_agents_characters_arrive_whole(tmp_path: Path, operation: Operation) -> None:
    """Field case B13 with a CLI agent: its characters come through whole, whatever pieces they were printed in."""
    body = {"model": "agent", "stream": True, "messages": [{"role": "user", "content": TEXT}]}
    if operation == "responses":
        body["input"] = TEXT
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python(BYTEWISE)}) as s:
        answer = await s.post(body, CHAT if operation == "chat.completions" else RESPONSES)
        assert "�".encode() not in answer.body
        events = [parse_event(piece) for piece in EventSplitter().feed(answer.body)]
        datas = [json.loads(event.data) for event in events if event is not None and event.data != "[DONE]"]
        if operation == "responses":
            deltas = [data["delta"] for data in datas if data["type"] == "response.output_text.delta"]
        else:
            deltas = [data["choices"][0]["delta"].get("content") or "" for data in datas if data["choices"]]
        assert "".join(deltas) == TEXT
