"""Field case B20: no 200 before the engine's own status is known."""

import json
from pathlib import Path

from tests.fakes.fake_up import JSON, LAST_CHUNK, Exchange, Script, chunk, event, response, stream_head
from tests.fakes.stack import RESPONSES, Engine, chat, stack

BUSY = b'{"error":  {"message": "slow down", "type": "rate_limit_error", "code": null, "own": 1}}'
WRONG = b'{"object": "error", "message": "max_tokens is too large"}'
ERROR = event({"error": {"message": "out of memory", "type": "server_error", "code": 500}})


def _answers(data: bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(data)

    return script


async def test_b20_a_429_passes_with_its_body_and_retry_after(tmp_path: Path) -> None:
    """Field case B20: stream=true and an engine's 429: status, body and Retry-After are the engine's."""
    async with stack(tmp_path, Engine(_answers(response(429, BUSY, (*JSON, ("Retry-After", "17")))))) as s:
        answer = await s.post(chat(stream=True))
        assert (answer.status, answer.body) == (429, BUSY)
        assert answer.headers["retry-after"] == "17"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-iop-provider"] == "p1"
        await s.idle()
        assert s.totals("completed", "returned") == (1, 0)  # an answer below 500 is the answer, and never tried again
        assert len(s.up.requests) == 1


async def test_b20_a_400_and_a_500_pass_as_they_are(tmp_path: Path) -> None:
    """Field case B20: stream=true and an engine's 400 or 500: both pass byte for byte; the 500 counts as failed."""
    async with stack(tmp_path, Engine(_answers(response(400, WRONG)))) as s:
        for status, completed, failed in ((400, 1, 0), (500, 1, 1)):
            s.up.script = _answers(response(status, WRONG))
            answer = await s.post(chat(stream=True))
            assert (answer.status, answer.body) == (status, WRONG)
            assert answer.headers["content-type"] == "application/json"
            await s.idle()
            assert s.totals("completed", "failed", "returned") == (completed, failed, 0)


async def test_b20_a_refused_connection_is_a_502(tmp_path: Path) -> None:
    """Field case B20: stream=true and nobody listening: 502 in OpenAI's shape that names the provider's failure."""
    async with stack(tmp_path, Engine(_answers(b"")), checks_request=False) as s:
        s.up.stop_listening()
        answer = await s.post(chat(stream=True))
        assert (answer.status, answer.code) == (502, "upstream_unreachable")
        assert answer.headers["content-type"].startswith("application/json")
        assert "p1" in answer.json["error"]["message"]
        assert "x-iop-provider" not in answer.headers
        assert s.up.requests == []
        assert s.totals("admitted", "returned", "failed", "expired")[0] == 1


async def test_b20_a_refused_connection_lets_another_provider_answer(tmp_path: Path) -> None:
    """Field case B20: with a second provider the client never hears of the one that refused."""
    async with stack(tmp_path, Engine(_answers(response())), Engine(_answers(response()))) as s:
        s.ups[0].stop_listening()
        answers = [await s.post(chat(stream=True)) for _ in range(4)]
        assert [(a.status, a.headers["x-iop-provider"]) for a in answers] == [(200, "p2")] * 4
        assert s.totals("completed", "failed") == (4, 0)
        assert s.totals("returned")[0] >= 1


async def test_b20_an_error_as_the_first_event_is_a_failure(tmp_path: Path) -> None:
    """Field case B20: 200 whose first event is an error passes unchanged, its [DONE] included, and counts as failed."""
    body = ERROR + event("[DONE]")
    async with stack(tmp_path, Engine(_answers(stream_head() + chunk(body) + LAST_CHUNK))) as s:
        answer = await s.post(chat(stream=True))
        assert (answer.status, answer.body, answer.cut) == (200, body, False)
        await s.idle()
        assert s.totals("completed", "failed") == (0, 1)


async def test_b20_an_error_as_the_only_event_of_a_response_gets_its_terminal_event(tmp_path: Path) -> None:
    """Field case B20: a responses stream that only tells an error is brought to an end with response.failed."""
    async with stack(tmp_path, Engine(_answers(stream_head() + chunk(ERROR) + LAST_CHUNK))) as s:
        answer = await s.post({"model": "m", "input": "hi", "stream": True}, RESPONSES)
        assert answer.body.startswith(ERROR)
        types = [json.loads(part.partition(b"data: ")[2]).get("type") for part in answer.body.strip().split(b"\n\n")]
        assert types.count("response.failed") == 1
        await s.idle()
        assert s.totals("failed") == (1,)
