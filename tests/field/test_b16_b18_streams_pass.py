"""Field cases B16 and B18: line ends, comments and odd chunks of streams pass as they are."""

import re
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, stream_head
from tests.fakes.stack import Engine, Stack, chat, stack

LINES = (
    ": a comment",
    ": ping",
    "",
    'data:{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
    "",
    ":",
    'data: {"id":"1","choices":[{"index":0,',
    ": ping",
    'data: "delta":{"content":"two lines 統一"}}]}',
    "",
    "id: 7",
    "retry: 10",
    'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    "",
    "data: [DONE]",
    "",
)
ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


def _text(end: str) -> bytes:
    if end in ENDS:
        return (ENDS[end].join(LINES) + ENDS[end]).encode()
    mixed = ["\n", "\r", "\r\n"]  # never a CR and then an LF that would be one end together
    return "".join(line + mixed[number % 3] for number, line in enumerate(LINES)).encode()


def strict_datas(stream: bytes) -> Iterator[str]:
    """The data of each event, read as the standard says, from the whole text at once."""
    data: list[str] = []
    for line in re.split(r"\r\n|\n|\r", stream.decode())[:-1]:
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def _sdk(s: Stack) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0, timeout=20)


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("end", ["lf", "crlf", "cr", "mixed"])
async def test_b16_every_form_passes_and_reads_the_same(tmp_path: Path, end: str, size: int) -> None:
    """Field case B16: byte for byte in every line end and cut; SDK and a strict reader see equal events."""
    text = _text(end)

    async def script(exchange: Exchange) -> None:
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        await exchange.send(stream_head() + b"".join(map(chunk, pieces)) + LAST_CHUNK)

    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(chat(stream=True))
        assert (answer.body, answer.cut) == (text, False)
        async with _sdk(s) as client:
            stream = await client.chat.completions.create(model="m", messages=[], stream=True)
            seen = [piece async for piece in stream]
        assert [piece.choices[0].delta.content for piece in seen] == ["", "two lines 統一", None]
        assert list(strict_datas(text)) == list(strict_datas(_text("lf")))
        assert len(list(strict_datas(text))) == len(seen) + 1
        await s.idle()
        assert s.totals("completed", "failed") == (2, 0)


USAGE = '"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
TOKEN = 'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("", 'data: {"id":"1","choices":[],' + USAGE + "}\n\n"),
        ("", 'data: {"id":"1","choices":null,' + USAGE + "}\n\n"),
        ("", 'data: {"id":"1",' + USAGE + "}\n\n"),
        ('data: {"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}\n\n', ""),
    ],
    ids=["empty", "null", "absent", "azure"],
)
async def test_b18_chunks_without_choices_pass_unchanged(tmp_path: Path, first: str, last: str, asked: bool) -> None:
    """Field case B18: a usage-only chunk, one without choices, a leading empty one: unchanged, and a whole answer."""
    text = (first + TOKEN + last + "data: [DONE]\n\n").encode()
    options = {"stream_options": {"include_usage": True}} if asked else {}

    async def script(exchange: Exchange) -> None:
        await exchange.send(stream_head() + chunk(text) + LAST_CHUNK)

    body = chat(stream=True, **options)
    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(body)
        assert (answer.status, answer.body, answer.cut) == (200, text, False)
        assert s.up.requests[-1].body == body  # usage is asked for by the client or not at all
        await s.idle()
        assert s.totals("completed", "failed") == (1, 0)
