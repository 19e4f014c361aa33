"""Cases that take slots, one after the other on one worker (see scheduling.py): rounds, recorded and judged."""

import asyncio

import pytest

from smoke import acts
from smoke.client import Ask, Endpoint, Line, connect
from smoke.facts import judge_answers
from smoke.history import Request, RoundKind
from smoke.holding import blockers, hold
from smoke.rounds import FIRST_TOKENS, Bench
from smoke.stage import Act


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_capacity(bench: Bench, endpoint: Endpoint) -> None:
    """Capacity + 1 at once: total in flight equals capacity, exactly one waits, all succeed, 0/0 at the end."""
    prove(bench, f"capacity-{endpoint}", "capacity", acts.burst(endpoint, more=1))


def test_first_in_first_out(bench: Bench) -> None:
    """Capacity + 4 at once: those who wait are served in the order in which they joined the line."""
    prove(bench, "fifo", "order", acts.burst("chat", more=4))


def test_cli_beside_a_full_pool(bench: Bench) -> None:
    """A CLI call while every slot is taken and one waits: it starts at once, takes no slot and no place in line."""
    if bench.env.cli_model is None:
        pytest.skip("the inventory has no model with a direct route")
    prove(bench, "cli-beside", "cli_beside", acts.cli_beside(bench.env.cli_model))


def test_client_leaves_while_queued(bench: Bench) -> None:
    """A client that leaves the line is forgotten at once: it never gets a slot, everyone else is served."""
    prove(bench, "left-queued", "left_queued", acts.leave_queued)


def test_client_leaves_while_streaming(bench: Bench) -> None:
    """A client that leaves in mid-stream gives its slot to the one that waits."""
    prove(bench, "left-streaming", "left_streaming", acts.leave_streaming)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_answers(bench: Bench, endpoint: Endpoint) -> None:
    """One request, not streamed and streamed, is answered whole and in words by a declared provider."""
    hold(judge_answers(bench.env, asyncio.run(_one_of_each(bench, endpoint))))


async def _one_of_each(bench: Bench, endpoint: Endpoint) -> list[Request]:
    answers = []
    async with connect(bench.reach.openai, bench.key) as client:
        for stream in (False, True):
            request_id = f"smoke-{bench.run}-{endpoint}-{'stream' if stream else 'whole'}"
            ask = Ask(endpoint, request_id, endpoint, bench.env.smoke_model, 32, stream=stream)
            answers.append(await client.send(Line(ask)))
    bench.history.append(*answers)
    return answers


def prove(bench: Bench, case: str, kind: RoundKind, act: Act, *, tokens: int = FIRST_TOKENS) -> None:
    """Run rounds until one can be judged, and fail with every verdict that is not good."""
    with blockers(bench, case):
        hold(asyncio.run(bench.prove(case, kind, act, tokens=tokens)))
