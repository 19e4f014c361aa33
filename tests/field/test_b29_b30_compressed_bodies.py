"""Field cases B29 and B30: compressed request bodies, honest and hostile."""

import asyncio
import gzip
import logging
import resource
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, chat, stack

BODY = chat("Größe 統一", odd=[1.50, 10**30], marker="never-in-a-log")
MIB = 1024 * 1024
RAW_DEFLATE = zlib.compressobj(wbits=-15)
CODED = [
    ("identity", BODY),
    ("gzip", gzip.compress(BODY)),
    ("x-gzip", gzip.compress(BODY)),
    ("deflate", zlib.compress(BODY)),
    ("deflate", RAW_DEFLATE.compress(BODY) + RAW_DEFLATE.flush()),
    ("zstd", zstd.compress(BODY)),
    ("zstd", zstd.compress(BODY[:20]) + zstd.compress(BODY[20:])),
]


async def test_b29_the_engine_gets_plain_json_of_the_right_length(tmp_path: Path) -> None:
    """Field case B29: decoded once, the same bytes in every coding and on both routes, no coding named upstream."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for path in (CHAT, RESPONSES):
            for coding, body in CODED:
                answer = await s.post(body, path, f"Content-Encoding: {coding}", "Content-Type: application/json")
                assert answer.status == 200, (coding, answer.body)
        assert [exchange.body for exchange in s.up.requests] == [BODY] * len(CODED) * 2
        for exchange in s.up.requests:
            assert exchange.field("content-encoding") is None
            assert exchange.field("content-length") == str(len(BODY))


def _many_times(pack: Callable[[bytes], bytes], count: int) -> bytes:
    body = BODY
    for _ in range(count):
        body = pack(body)
    return body


HOSTILE = [
    ("gzip", b"\x1f\x8b\x08\x00garbage" * 10, 400),
    ("gzip", BODY, 400),
    ("deflate", BODY, 400),
    ("zstd", BODY, 400),
    ("gzip", gzip.compress(BODY)[:-5], 400),
    ("zstd", zstd.compress(BODY)[:-5], 400),
    ("gzip", gzip.compress(BODY) + b"\0trailing", 400),
    ("gzip, gzip, gzip, gzip, gzip", _many_times(gzip.compress, 5), 415),
    ("br", BODY, 415),
    ("gzip", gzip.compress(bytes(50 * MIB), 9), 413),
    ("deflate", zlib.compress(bytes(50 * MIB), 9), 413),
    ("zstd", zstd.compress(bytes(50 * MIB)), 413),
]


async def test_b30_hostile_bodies_are_refused_in_openais_shape(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case B30: each is a 4xx that is JSON, reaches no slot and no log, and the next request is served."""
    caplog.set_level(logging.DEBUG)
    async with stack(tmp_path, Engine(answer_ok), http={"max_body": "1MiB"}) as s:
        for coding, body, status in HOSTILE:
            answer = await s.post(body, CHAT, f"Content-Encoding: {coding}")
            assert (answer.status, answer.headers["content-type"]) == (status, "application/json"), coding
            assert set(answer.json["error"]) == {"message", "type", "param", "code"}
        assert s.totals("received") == (0,)
        assert s.up.requests == []
        assert (await s.post()).status == 200
    assert "never-in-a-log" not in caplog.text


async def test_b30_bombs_cost_no_memory(tmp_path: Path) -> None:
    """Field case B30: ten bombs at once, each of 200 MiB under a limit of 1 MiB, add little to this process's peak."""
    bombs = [("gzip", gzip.compress(bytes(200 * MIB), 6)), ("zstd", zstd.compress(bytes(200 * MIB)))]
    async with stack(tmp_path, Engine(answer_ok), http={"max_body": "1MiB"}) as s:
        assert (await s.post()).status == 200
        before = _peak()
        answers = await asyncio.gather(
            *(s.post(body, CHAT, f"Content-Encoding: {coding}") for coding, body in bombs * 5)
        )
        assert [answer.status for answer in answers] == [413] * 10
        assert _peak() - before < 64 * MIB


def _peak() -> int:
    """The most memory this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
