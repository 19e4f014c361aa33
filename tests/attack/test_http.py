"""Bytes against every HTTP port: smuggling, odd heads, odd lines, paths that want out."""

import asyncio

import pytest

from tests.attack.http_tables import FRAMING, HOSTS, KEYS, LINES, ORIGINS, PATHS, Case
from tests.attack.target import Target, replies

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: what keeps a browser from making anything of an answer
GUARDS = ("x-content-type-options", "content-security-policy", "cross-origin-resource-policy", "x-request-id")
TABLES = {"framing": FRAMING, "hosts": HOSTS, "keys": KEYS, "origins": ORIGINS, "lines": LINES, "paths": PATHS}
AT_ONCE = 8


async def _try(target: Target, port: str, case: Case) -> str | None:
    """Say the case's bytes; what is wrong with the answers, or None."""
    post, get = target.LINES[port]
    said = await target.say(port, case.data.replace(b"%POST%", post).replace(b"%GET%", get))
    got = replies(said)
    statuses = tuple(reply.status for reply in got)
    for reply in got:
        if not reply.headers.get("content-type", "").startswith("application/json"):
            return f"{case.name}: no JSON: {said[:200]!r}"
        if not set(GUARDS).issubset(reply.headers):
            return f"{case.name}: lacks {set(GUARDS) - set(reply.headers)}"
        if any(name.startswith("access-control-") for name in reply.headers):
            return f"{case.name}: grants something to other origins"
    if len(statuses) != 1 or statuses[0] not in case.answers:
        return f"{case.name}: {statuses} {got[0].body if got else b''!r}"
    return None


@pytest.mark.parametrize("port", Target.LINES)
@pytest.mark.parametrize("table", TABLES)
async def test_each_gets_one_answer_and_no_more(target: Target, table: str, port: str) -> None:
    """Refused in JSON and in one answer, also with a whole request hidden behind it; no engine hears of any."""
    before = await target.started()
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> str | None:
        async with turn:
            return await _try(target, port, case)

    wrong = [found for found in await asyncio.gather(*(one(case) for case in TABLES[table])) if found is not None]
    assert not wrong, "\n".join(wrong)
    assert await target.started() == before
