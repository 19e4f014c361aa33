"""Field cases B32 and B34: values that engines and clients stumble over pass byte for byte, or are refused in time."""

import json
from pathlib import Path

import pytest

from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, Exchange, chunk, response, stream_head
from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, encoded, stack

ECHO = python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())")
UNUSUAL = {
    "enable_thinking": False,
    "chat_template_kwargs": {"thinking": {"budget": 1e-9, "nested": [[[]], {}]}},
    "stream_options": None,
    "max_completion_tokens": 7,
    "reasoning_content": "…",
    "prompt_cache_key": "k",
    "client_metadata": {"a": {"b": None}},
    "guided_json": {"type": "object"},
    "repetition_penalty": 1.0,
    "logit_bias": {"50256": -100},
    "service_tier": "auto",
    "user": "é\u2028",
}
ODD = [
    b'"big": 123456789012345678901234567890, "n": -0, "m": -0.0, "e": [1e400, 1E-400, 1.10, 10e+2]',
    b'"s": "\\ud800", "t": "a\\udfffb", "pair": "\\ud83e\\udd99", "u": "\\u0041\\/"',
    b'"nested": {"a": 1, "a": 2, "model": "x", "model": "y"}',
    b'"digits": ' + b"9" * 5000,
    b'"deep": ' + b"[" * 499 + b"]" * 499,
    b' "space"\t:\r\n [ 1 ,2 ] ',
    '"raw": "\u2028\U0001f999\x7f"'.encode(),
    b'"": "", "stream": null',
]
REFUSED = [
    (b'{"model": "m", "t": NaN}', "invalid_json"),
    (b'{"model": "m", "t": [Infinity]}', "invalid_json"),
    (b'{"model": "m", "s": "\\ud800", "t": -Infinity}', "invalid_json"),
    (b'{"model": "m", "deep": ' + b"[" * 500 + b"]" * 500 + b"}", "invalid_json"),
    (b'\xef\xbb\xbf{"model": "m"}', "invalid_json"),
    ('{"model": "m"}'.encode("utf-16"), "invalid_json"),
    ('{"model": "m"}'.encode("utf-32-le"), "invalid_json"),
    (b'{"model": "m", "s": "\xed\xa0\x80"}', "invalid_json"),
    (b'{"model": "m"} {"model": "m"}', "invalid_json"),
    (b'{"model": "m"}\0', "invalid_json"),
    (b'{"model": "m", "mod\\u0065l": "n"}', "invalid_body"),
    (b'{"model": "\\ud800"}', "invalid_body"),
]


@pytest.mark.parametrize("engine_model", ["m", "Org/Other:tag é"])
async def test_b32_odd_values_arrive_byte_for_byte(tmp_path: Path, engine_model: str) -> None:
    """Field case B32: nothing but the model's own value changes, and that only where the engine has another name."""
    models = [{"id": "m", "providers": {"p1": engine_model}}]
    name = json.dumps(engine_model, ensure_ascii=False).encode()
    async with stack(tmp_path, Engine(answer_ok), models=models) as s:
        for odd in ODD:
            for before, after in ((b'{"model": ', b", %s}" % odd), (b"{%s, " % odd + b'"model": ', b"}")):
                assert (await s.post(before + b'"m"' + after)).status == 200, odd[:60]
                assert s.up.requests[-1].body == before + name + after
                assert s.up.requests[-1].field("content-length") == str(len(s.up.requests[-1].body))


async def test_b32_what_is_no_json_is_refused_before_a_slot(tmp_path: Path) -> None:
    """Field case B32: NaN, foreign encodings, trailing bytes and the like are a 400 in JSON; the node link lives on."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for body, code in REFUSED:
            answer = await s.post(body)
            assert (answer.status, answer.code) == (400, code), body[:60]
        assert s.totals("received") == (0,)
        assert (await s.post()).status == 200


async def test_b32_a_surrogate_in_an_agents_prompt(tmp_path: Path) -> None:
    """Field case B32: half a pair cannot be written in UTF-8; the answer is no 500 and the next request is served."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ECHO}) as s:
        body = b'{"model": "agent", "messages": [{"role": "user", "content": "a\\ud800b"}]}'
        odd = await s.post(body)
        assert odd.status in (200, 400), odd.body
        whole = await s.post(body.replace(b"\\ud800", b"\\ud83e\\udd99"))
        assert whole.json["choices"][0]["message"]["content"] == "a🦙b"


async def test_b32_what_an_engine_answers_passes(tmp_path: Path) -> None:
    """Field case B32: NaN and -Infinity in an answer, whole or streamed, are the engine's and pass as they are."""
    odd = b'{"choices": [{"logprobs": [-Infinity, NaN, 1e999], "s": "\\ud800"}]}'

    async def script(exchange: Exchange) -> None:
        if exchange.json.get("stream"):
            await exchange.send(stream_head() + chunk(b"data: " + odd + b"\n\ndata: [DONE]\n\n") + LAST_CHUNK)
        else:
            await exchange.send(response(200, odd))

    async with stack(tmp_path, Engine(script)) as s:
        assert (await s.post()).body == odd
        streamed = await s.post({"model": "m", "stream": True})
        assert (streamed.body, streamed.cut) == (b"data: " + odd + b"\n\ndata: [DONE]\n\n", False)
        await s.idle()
        assert s.totals("completed", "failed") == (2, 0)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_b34_unknown_fields_arrive_unchanged_both_ways(tmp_path: Path, path: str) -> None:
    """Field case B34: twelve unusual fields and what the engine answers to them pass byte for byte."""
    said = encoded({"object": "x", "reasoning_content": "…", "unheard_of": UNUSUAL})

    async def script(exchange: Exchange) -> None:
        await exchange.send(response(200, said))

    body = encoded({**UNUSUAL, "model": "m", "messages": [], "input": "hi"})
    async with stack(tmp_path, Engine(script)) as s:
        answer = await s.post(body, path)
        assert s.up.requests[-1].body == body
        assert answer.body == said
