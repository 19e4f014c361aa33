"""Recorded answers of real engines, played through the whole runtime: what the client gets of each, and how it counts.

The table is the expectation. A row: the recording, the status, the outcome that is counted, what becomes of the body:

as it is   the engine's entity bytes, not one more or less (interim answers and transfer coding taken off)
repaired   a whole response skeleton; without the added members it is the engine's bytes
ended      the engine's bytes, then the error that the engine did not tell in a way that clients understand
told       the engine's bytes, its own error among them, then response.failed with its words; the connection ends well
silent     as ended, after the engine stopped writing and left its connection open
refused    iop's own error: the answer cannot be passed on
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.fake_up import Exchange, Script
from tests.fakes.raw_client import Answer, parse
from tests.fakes.skeleton import TERMINAL, check_skeleton, read_events
from tests.fakes.stack import CHAT, RESPONSES, Engine, Stack, stack

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
TABLE = """
vllm/chat                                 200 completed as it is
vllm/chat_stream                          200 completed as it is
vllm/chat_stream_usage                    200 completed as it is
vllm/chat_tools                           400 completed as it is
vllm/chat_n2                              200 completed as it is
vllm/responses                            200 completed as it is
vllm/responses_stream                     200 completed as it is
vllm/responses_prev_id                    404 completed as it is
vllm/err_unknown_model                    404 completed as it is
vllm/err_unknown_model_stream             404 completed as it is
vllm/err_responses_unknown_model          404 completed as it is
vllm/err_bad_temperature                  400 completed as it is
vllm/err_empty_messages                   400 completed as it is
vllm/err_max_tokens_huge                  400 completed as it is
vllm/err_too_long                         400 completed as it is
vllm/err_too_long_stream                  400 completed as it is
vllm/err_too_long_responses_stream        400 completed as it is
vllm/err_no_input                         400 completed as it is
vllm/err_malformed                        400 completed as it is
vllm/req_expect_100                       200 completed as it is
vllm/req_no_content_type                  400 completed as it is
vllm/enginecore_killed_chat               500 failed    as it is
vllm/enginecore_killed_chat_stream        200 failed    as it is
vllm/enginecore_killed_responses_stream   200 failed    ended
vllm/sigterm_chat_stream                  200 failed    silent
vllm/sigterm_responses_stream             200 failed    silent
vllm_mlx/chat                             200 completed as it is
vllm_mlx/chat_stream                      200 completed as it is
vllm_mlx/chat_stream_usage                200 completed as it is
vllm_mlx/chat_tools                       200 completed as it is
vllm_mlx/responses                        200 completed as it is
vllm_mlx/responses_stream                 200 completed as it is
vllm_mlx/responses_prev_id                404 completed as it is
vllm_mlx/err_unknown_model                404 completed as it is
vllm_mlx/err_unknown_model_stream         404 completed as it is
vllm_mlx/err_responses_unknown_model      404 completed as it is
vllm_mlx/err_empty_messages               500 failed    as it is
vllm_mlx/err_max_tokens_huge              400 completed as it is
vllm_mlx/err_no_messages                  422 completed as it is
vllm_mlx/err_no_input                     422 completed as it is
vllm_mlx/req_expect_100                   200 completed as it is
mlx_lm/chat                               200 completed as it is
mlx_lm/chat_stream                        200 completed as it is
mlx_lm/chat_stream_usage                  200 completed as it is
mlx_lm/responses                          404 completed as it is
mlx_lm/responses_stream                   404 completed as it is
mlx_lm/err_unknown_model                  404 completed as it is
mlx_lm/err_unknown_model_stream           404 completed as it is
mlx_lm/err_bad_temperature                400 completed as it is
mlx_lm/err_empty_messages                 404 completed as it is
mlx_lm/err_too_long_stream                200 completed as it is
mlx_lm/req_chunked_body                   411 completed as it is
llamacpp/chat                             200 completed as it is
llamacpp/chat_stream                      200 completed as it is
llamacpp/chat_stream_usage                200 completed as it is
llamacpp/chat_tools                       200 completed as it is
llamacpp/chat_n2                          200 completed as it is
llamacpp/responses                        200 completed as it is
llamacpp/responses_stream                 200 completed repaired
llamacpp/responses_prev_id                400 completed as it is
llamacpp/err_no_input                     400 completed as it is
llamacpp/err_no_messages                  400 completed as it is
llamacpp/err_bad_type                     400 completed as it is
llamacpp/err_too_long                     400 completed as it is
llamacpp/err_too_long_stream              400 completed as it is
llamacpp/err_too_long_responses_stream    400 completed as it is
llamacpp/req_expect_100                   200 completed as it is
lemonade/chat                             200 completed as it is
lemonade/chat_stream                      200 completed as it is
lemonade/chat_stream_usage                200 completed as it is
lemonade/chat_n2                          400 completed as it is
lemonade/responses                        200 completed as it is
lemonade/responses_stream                 200 completed repaired
lemonade/responses_prev_id                400 completed as it is
lemonade/err_unknown_model                404 completed as it is
lemonade/err_unknown_model_stream         404 completed as it is
lemonade/err_responses_unknown_model      404 completed as it is
lemonade/err_no_model                     400 completed as it is
lemonade/err_no_input                     400 completed as it is
lemonade/err_malformed_responses          500 failed    as it is
lemonade/err_too_long                     400 completed as it is
lemonade/err_too_long_stream              200 failed    as it is
lemonade/err_too_long_responses_stream    200 failed    told
lemonade/backend_killed_chat_stream       200 failed    as it is
lemonade/backend_killed_responses_stream  200 failed    told
lemonade/req_expect_100                   200 completed as it is
lemonade/req_gzip_accept                  502 failed    refused
"""
ROWS = [line.split(None, 3) for line in TABLE.strip().splitlines()]
ENGINES = sorted({row[0].split("/")[0] for row in ROWS})
PLACES = rb'(?:,"(?:output_index|content_index|sequence_number)":\d+)+(?=\})'
BEGINNING = rb',"created_at":\d+,"output":\[\],"model":"m"(?=\},"sequence)'
ADDED = re.compile(PLACES + b"|" + BEGINNING)


@pytest.mark.parametrize("engine", ENGINES)
async def test_recorded_answers(tmp_path: Path, engine: str) -> None:
    """Every recording of an engine comes out as its row says."""
    rows = [row for row in ROWS if row[0].startswith(f"{engine}/") and row[3] != "silent"]
    async with stack(tmp_path, Engine(_play(b""))) as s:
        for name, status, outcome, body in rows:
            await _check(s, name, int(status), outcome, body)


async def test_recorded_silence(tmp_path: Path) -> None:
    """An engine that stops writing and keeps its connection is ended by `stream.idle_timeout`."""
    async with stack(tmp_path, Engine(_play(b"")), stream={"idle_timeout": "300ms"}) as s:
        for name, status, outcome, body in (row for row in ROWS if row[3] == "silent"):
            await _check(s, name, int(status), outcome, body)


def test_every_recording_has_its_row() -> None:
    """No recording lies about without an expectation, and no row is without its recording."""
    files = {path.relative_to(CAPTURES).with_suffix("").as_posix() for path in CAPTURES.rglob("*.resp")}
    assert files == {row[0] for row in ROWS}
    assert len(ROWS) == len(files)


def _play(data: bytes, *, silent: bool = False) -> Script:
    """Write a recording; then close, unless its framing told the end or it is to fall silent."""
    left_open = silent or data.endswith(b"\r\n0\r\n\r\n") or b"\r\ncontent-length:" in data.lower()

    async def script(exchange: Exchange) -> None:
        await exchange.send(data)
        if silent:
            await exchange.peer_left.wait()
        elif not left_open:
            exchange.close()

    return script


async def _check(s: Stack, name: str, status: int, outcome: str, becomes: str) -> None:
    """Ask as the recording was asked, and hold the answer against its row."""
    data = (CAPTURES / f"{name}.resp").read_bytes()
    is_responses = "responses" in name or name.endswith("no_input")
    stream = "stream" in name
    before = s.totals("completed", "failed")
    s.up.script = _play(data, silent=becomes == "silent")
    body = {"model": "m", "input": "say hi", "messages": [{"role": "user", "content": "say hi"}], "stream": stream}
    answer = await asyncio.wait_for(s.post(body, RESPONSES if is_responses else CHAT), 20)
    await s.idle()
    completed, failed = s.totals("completed", "failed")
    assert (name, completed - before[0], failed - before[1]) == (name, outcome == "completed", outcome == "failed")
    assert (name, answer.status) == (name, status)
    recorded = parse(data)
    if becomes != "refused":
        assert answer.headers["content-type"] == recorded.headers["content-type"]
    if is_responses and stream and status == 200:
        events = read_events(answer.body)
        assert (name, sum(event.get("type") in TERMINAL for event in events)) == (name, 1)
    CHECKS[becomes](answer, recorded.body, is_responses=is_responses)


def _as_it_is(answer: Answer, entity: bytes, **_: Any) -> None:
    assert answer.body == entity
    assert not answer.cut


def _repaired(answer: Answer, entity: bytes, **_: Any) -> None:
    response, text = check_skeleton(answer.body)
    assert text == "".join(part["text"] for item in response["output"] for part in item["content"])
    assert ADDED.sub(b"", answer.body) == entity
    assert not answer.cut


def _told(answer: Answer, entity: bytes, **_: Any) -> None:
    """The engine's own words are in the terminal event, and not told a third time."""
    failed, told = _added(answer, entity)
    assert told == []
    own = next(event["error"] for event in read_events(entity) if "error" in event)
    code = {"code": str(own["code"]) if "code" in own else "upstream_broken"}
    assert failed["response"]["error"] == {"message": own["message"], "type": own["type"], **code}
    assert not answer.cut


def _ended(answer: Answer, entity: bytes, *, is_responses: bool) -> None:
    """The status is out, so the failure is told in the stream; a chat stream's connection is cut."""
    told = _added(answer, entity)[1] if is_responses else read_events(answer.body.removeprefix(entity))
    assert [event["error"]["code"] in {"upstream_broken", "upstream_timeout"} for event in told] == [True]
    assert answer.cut is not is_responses


def _added(answer: Answer, entity: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The response.failed that follows the engine's bytes, with the next number, and the events after it."""
    at = answer.body.index(b"event: response.failed\n")
    passed = answer.body[:at]
    assert entity in {passed, ADDED.sub(b"", passed)}
    failed, *told = read_events(answer.body[at:])
    numbers = [event["sequence_number"] for event in read_events(passed) if "sequence_number" in event]
    assert failed["sequence_number"] == max(numbers, default=-1) + 1
    return failed, told


def _refused(answer: Answer, entity: bytes, **_: Any) -> None:
    assert answer.code == "upstream_broken"
    assert json.dumps(answer.json).isascii()


CHECKS = {
    "as it is": _as_it_is,
    "repaired": _repaired,
    "told": _told,
    "ended": _ended,
    "silent": _ended,
    "refused": _refused,
}
