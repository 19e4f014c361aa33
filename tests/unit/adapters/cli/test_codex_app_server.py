"""Codex by its app-server: recorded conversations of the real one, and each way in which it can fail."""

import asyncio
import json
import uuid
from contextlib import aclosing

import pytest

from iop.adapters.cli import codex_app_server
from iop.adapters.cli.agent import AgentFailedError, Limits, NewMessage, SaidAgain
from iop.adapters.cli.codex_app_server import answer
from iop.adapters.cli.trees import tree_for
from iop.link.messages import CliTarget
from iop.openai.answers import Usage
from tests.fakes.agents import living
from tests.fakes.codex import COMPLETED, OPENING, FakeCodex, delta
from tests.fakes.until import until

WORDS = ["Hi ", "from ", "the ", "fake ", "model."]
ENOUGH = Limits(silence=60)


async def collect(target, prompt="say hi", limits=ENOUGH):
    """Return all that is said."""
    said = []
    async with asyncio.timeout(60), aclosing(answer(target, prompt, limits, tree_for("linux"))) as answering:
        async for piece in answering:
            said.append(piece)
    return said


async def test_a_recorded_turn(tmp_path):
    """Each delta comes by itself, then the tokens; the prompt travels as JSON on stdin, never as an argument."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok")
    prompt = "--help\n$(id) 'é' \u2028 \"x\""
    assert await collect(codex.target(cwd=str(tmp_path)), prompt) == [NewMessage(), *WORDS, Usage(11, 3)]
    assert codex.log()[0] == {"argv": ["app-server"]}
    (start,) = codex.got("thread/start")
    assert start["params"] == {
        "cwd": str(tmp_path),
        "ephemeral": True,
        "sandbox": "read-only",
        "approvalPolicy": "never",
    }
    (turn,) = codex.got("turn/start")
    assert turn["params"]["input"] == [{"type": "text", "text": prompt}]


async def test_the_operators_own_words_win(tmp_path):
    """A sandbox and an approval policy that stand in `command` are left to it."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok")
    words = ("-c", 'sandbox_mode="workspace-write"', "-c", 'approval_policy="on-request"')
    await collect(codex.target(*words))
    assert codex.log()[0] == {"argv": [*words, "app-server"]}
    assert codex.got("thread/start")[0]["params"] == {"ephemeral": True}


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ("app_server_toolfail", [NewMessage(), *WORDS, Usage(22, 6)]),
        ("app_server_droponce", [NewMessage(), *WORDS, Usage(11, 3)]),
        ("app_server_deltas_only", [NewMessage(), *WORDS, Usage(11, 3)]),
        ("app_server_reasoning", [NewMessage(), "First I look.", NewMessage(), *WORDS, Usage(11, 3)]),
    ],
)
async def test_recorded_turns_with_something_on_the_way(tmp_path, capture, said):
    """A failed tool, a broken connection, no end of the message, reasoning: only what is said to the user comes."""
    assert await collect(FakeCodex(tmp_path, app_server=capture).target()) == said


@pytest.mark.parametrize(
    ("capture", "reason"),
    [
        ("app_server_failed", "stream disconnected before completion: host died"),
        ("app_server_401", "unexpected status 401 Unauthorized: bad key"),
        ("app_server_incomplete", "Incomplete response returned, reason: max_output_tokens"),
    ],
)
async def test_recorded_failures(tmp_path, capture, reason):
    """A turn that fails tells why; attempts to reconnect before it are no failures."""
    with pytest.raises(AgentFailedError, match=reason):
        await collect(FakeCodex(tmp_path, app_server=capture).target())


ERROR = '{"id":2,"error":{"code":-32600,"message":"no such model"}}'
BROKEN = (
    '{"method":"error","params":{"willRetry":true,"error":{"message":"Reconnecting... 1/5","additionalDetails":"cut"}}}'
)


@pytest.mark.parametrize(
    ("transcript", "reason"),
    [
        ([*OPENING, "! stderr boom", "! exit 3"], r"^boom \(exit status 3\)$"),
        ([*OPENING, "! exit 0"], "^the agent ended before its turn was completed$"),
        ([*OPENING, "! kill"], "^the agent failed: ended by signal 9$"),
        ([*OPENING, "noise", "! stdout \\x1b[31m more noise", "! exit 0"], "ended before its turn was completed"),
        ([*OPENING, COMPLETED], "^the turn ended without a message$"),
        ([*OPENING, COMPLETED.replace('"completed"', '"interrupted"')], "^the turn ended as interrupted$"),
        ([*OPENING, BROKEN, COMPLETED.replace('"completed"', '"failed"')], r"^Reconnecting... 1/5 \(cut\)$"),
        ([*OPENING[:4], ERROR], "^no such model$"),
        ([*OPENING[:4], '{"id":2,"result":{}}'], "without an id"),
        (
            ["! stderr Error loading config.toml: bad", "! stderr in `x`", "! exit 1"],
            "^Error loading config.toml: bad in",
        ),
    ],
)
async def test_each_way_to_fail_has_its_reason(tmp_path, transcript, reason):
    """A crash, an early end, garbage, an empty turn, a refusal: a failure with its reason, never an empty success."""
    with pytest.raises(AgentFailedError, match=reason):
        await collect(FakeCodex(tmp_path, app_server=transcript).target())


async def test_silence_is_a_failure(tmp_path):
    """A Codex that says nothing any more is ended, with all of its processes."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    target = FakeCodex(tmp_path, app_server=[*OPENING, delta("half"), "! hang"]).target(env={marker: "1"})
    with pytest.raises(AgentFailedError, match="the agent was silent for 2 s"):
        await collect(target, limits=Limits(silence=2))
    assert list(living(marker)) == []


async def test_a_message_said_again(tmp_path):
    """A connection that broke within a message is told, since Codex says that message again."""
    lines = [*OPENING, delta("Hi fr", "m1"), BROKEN, delta("Hi from", "m2"), COMPLETED]
    said = await collect(FakeCodex(tmp_path, app_server=lines).target())
    assert said == [NewMessage(), "Hi fr", SaidAgain(), NewMessage(), "Hi from"]


async def test_nobody_waits_for_an_approval(tmp_path):
    """What Codex asks a person is refused at once, what iop does not know is an error; the turn goes on."""
    asked = {
        "item/commandExecution/requestApproval": {"decision": "decline"},
        "execCommandApproval": {"decision": "denied"},
        "item/tool/requestUserInput": {"answers": {}},
    }
    lines = []
    for number, method in enumerate((*asked, "surprise/ask")):
        lines += [json.dumps({"id": number, "method": method, "params": {}}), json.dumps({"id": number})]
    lines[1::2] = [f"> {line}" for line in lines[1::2]]
    codex = FakeCodex(tmp_path, app_server=[*OPENING, *lines, delta("ok"), COMPLETED])
    assert await collect(codex.target()) == [NewMessage(), "ok"]
    answers = [entry["got"] for entry in codex.log() if "got" in entry and "method" not in entry["got"]]
    assert [answer.get("result") for answer in answers[:-1]] == list(asked.values())
    assert answers[-1]["error"] == {"code": -32601, "message": "iop does not serve surprise/ask"}


async def test_leaving_interrupts_the_turn_and_ends_the_tree(tmp_path):
    """A client that leaves: Codex is asked to stop its turn, and is gone when the run is over."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    codex = FakeCodex(tmp_path, app_server="app_server_slow")
    async with (
        asyncio.timeout(60),
        aclosing(answer(codex.target(env={marker: "1"}), "hi", ENOUGH, tree_for("linux"))) as a,
    ):
        async for said in a:
            if said == "the ":
                break
    (interrupt,) = codex.got("turn/interrupt")
    assert interrupt["params"]["turnId"] == "01a2274d-833e-7303-9bbd-3b739ebc3e3b"
    assert list(living(marker)) == []


async def test_a_codex_that_ignores_the_interrupt(tmp_path, monkeypatch):
    """A Codex that does not stop in time is ended by force."""
    monkeypatch.setattr(codex_app_server, "INTERRUPTED_WITHIN", 0.1)
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    target = FakeCodex(tmp_path, app_server=[*OPENING, delta("x"), "! hang"]).target(env={marker: "1"})
    task = asyncio.ensure_future(collect(target))
    await until(lambda: len(FakeCodex(tmp_path).got("turn/start")) == 1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert list(living(marker)) == []


@pytest.mark.parametrize("size", [70 * 1024, 1024 * 1024, 20 * 1024 * 1024])
async def test_very_long_lines(tmp_path, size):
    """Field case B56: a line of any size below the cap is one message."""
    said = await collect(FakeCodex(tmp_path, app_server=[*OPENING, delta("x" * size), COMPLETED]).target())
    assert said == [NewMessage(), "x" * size]


async def test_a_line_above_the_cap(tmp_path, monkeypatch):
    """Field case B56: above the cap Codex is ended with a clear reason."""
    monkeypatch.setattr("iop.adapters.cli.jsonl.MAX_LINE", 1000)
    with pytest.raises(AgentFailedError, match="a line of more than 1000 bytes"):
        await collect(FakeCodex(tmp_path, app_server=[*OPENING, delta("x" * 2000), COMPLETED]).target())


async def test_no_program():
    """A program that is not there is a failure that names it."""
    with pytest.raises(AgentFailedError, match="/no/such/codex"):
        await collect(CliTarget(name="t", kind="codex", command=("/no/such/codex",)))
