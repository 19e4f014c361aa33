"""Field case B22 for CLI models: the events that Codex' answers are made of, and the failures told in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.fakes.agents import python
from tests.fakes.codex import COMPLETED, OPENING, FakeCodex, delta
from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, chat, stack

TEXT = "Hi from the fake model."
SKELETON = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]
WAYS = pytest.mark.parametrize(
    ("ways", "deltas"),
    [({"app_server": "app_server_ok"}, 5), ({"exec": "exec_ok"}, 1)],
    ids=["app-server", "exec"],
)


def agent(codex: FakeCodex) -> dict[str, Any]:
    """The stand-in as an entry of `cli.targets`."""
    target = codex.target()
    return {"kind": "codex", "command": list(target.command), "env": target.env}


def events(body: bytes) -> list[dict[str, Any]]:
    """The data of each event that is JSON."""
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@WAYS
async def test_b22_the_skeleton_is_complete(tmp_path: Path, ways: dict[str, str], deltas: int) -> None:
    """Field case B22: each event in its place, numbers that rise, and a final object that equals the deltas."""
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": agent(FakeCodex(tmp_path, **ways))}) as s:
        answer = await s.post({"model": "codex", "input": "say hi", "stream": True}, RESPONSES)
        told = events(answer.body)
        kinds = [event["type"] for event in told]
        assert list(dict.fromkeys(kinds)) == SKELETON
        assert kinds.count("response.output_text.delta") == deltas
        assert [event["sequence_number"] for event in told] == list(range(len(told)))
        final = told[-1]["response"]
        assert (final["status"], final["usage"]["total_tokens"]) == ("completed", 14)
        said = "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")
        assert final["output"][0]["content"][0]["text"] == said == TEXT
        assert answer.headers["x-iop-node"] == "n1"
        assert "x-iop-provider" not in answer.headers


@WAYS
async def test_b22_with_the_official_sdk(tmp_path: Path, ways: dict[str, str], deltas: int) -> None:
    """Field case B22: the SDK's own accumulators agree, on both APIs, streamed or not."""
    agents = {"codex": agent(FakeCodex(tmp_path, **ways))}
    async with stack(tmp_path, Engine(answer_ok), agents=agents) as s:
        client = AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0)
        async with client.responses.stream(model="codex", input="say hi") as streamed:
            pieces = [event.delta async for event in streamed if event.type == "response.output_text.delta"]
            final = await streamed.get_final_response()
        assert (final.output_text, "".join(pieces), len(pieces)) == (TEXT, TEXT, deltas)
        assert final.usage is not None
        assert (final.usage.input_tokens, final.usage.output_tokens) == (11, 3)
        messages: Any = [{"role": "user", "content": "say hi"}]
        async with client.chat.completions.stream(model="codex", messages=messages) as chatting:
            done = await chatting.get_final_completion()
        assert done.choices[0].message.content == TEXT
        whole = await client.chat.completions.create(model="codex", messages=messages)
        assert whole.choices[0].message.content == TEXT
        assert whole.usage is not None
        assert whole.usage.total_tokens == 14
        await client.close()


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_a_failure_within_the_text_is_an_error_event(tmp_path: Path, path: str) -> None:
    """Text, then a turn that fails: the reason follows the text, and no good end."""
    failed = COMPLETED.replace('"completed","error":null', '"failed","error":{"message":"quota is used up"}')
    codex = FakeCodex(tmp_path, app_server=[*OPENING, delta("half"), failed])
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": agent(codex)}) as s:
        body = {"input": "x"} if path == RESPONSES else {"messages": [{"role": "user", "content": "x"}]}
        answer = await s.post({"model": "codex", "stream": True, **body}, path)
        assert answer.status == 200
        assert b"half" in answer.body
        assert b"quota is used up" in answer.body
        assert b"agent_failed" in answer.body
        assert b"[DONE]" not in answer.body
        assert b"response.completed" not in answer.body
        await s.idle()
        assert s.direct()["failed"] == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("codex", "reason"),
    [
        ({"app_server": "app_server_failed"}, "host died"),
        ({"app_server": [*OPENING, COMPLETED]}, "ended without a message"),
        ({"app_server": [*OPENING, "! kill"]}, "ended by signal 9"),
        ({"app_server": [*OPENING, "garbage", "! exit 0"]}, "ended before its turn was completed"),
        ({"exec": "exec_incomplete"}, "max_output_tokens"),
        ({"exec": "exec_ok", "needs_login": True}, "Codex is not logged in"),
    ],
)
async def test_failures_before_any_text_have_a_status(
    tmp_path: Path, codex: dict[str, Any], reason: str, stream: bool
) -> None:
    """Each failure is 502 `agent_failed` with its reason, never an empty success."""
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": agent(FakeCodex(tmp_path, **codex))}) as s:
        answer = await s.post(chat(model="codex", stream=stream))
        if codex == {"exec": "exec_incomplete"} and stream:  # its message has been said
            assert answer.status == 200
        else:
            assert (answer.status, answer.json["error"]["code"]) == (502, "agent_failed")
            assert answer.json["error"]["type"] == "server_error"
        assert reason.encode() in answer.body


async def test_a_target_becomes_ready_after_a_login(tmp_path: Path) -> None:
    """Status tells why an agent is not ready, without a request; a login heals it without a restart."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok", needs_login=True)

    def target(status: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = status["nodes"][0]["adapters"][0]["targets"][0]
        return found

    async with stack(tmp_path, Engine(answer_ok), agents={"codex": agent(codex)}) as s:
        status = await s.until(lambda status: (target(status)["reason"] or "").startswith("Codex is not logged in"))
        assert target(status)["ready"] is False
        codex.login_file.touch()
        answer = await s.post(chat(model="codex"))
        while answer.status != 200:  # a request looks again at most every few seconds
            assert answer.json["error"]["code"] == "agent_failed"
            answer = await s.post(chat(model="codex"))
        status = await s.until(lambda status: target(status)["ready"])
        assert target(status) == {"name": "codex", "kind": "codex", "ready": True, "reason": None}


async def test_text_agents_have_the_same_skeleton(tmp_path: Path) -> None:
    """Field case B22: an agent of kind text; its tokens are not known, and said to be null."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": python("print('hi', end='')")}) as s:
        answer = await s.post({"model": "agent", "input": "x", "stream": True}, RESPONSES)
        told = events(answer.body)
        assert [event["type"] for event in told] == SKELETON
        assert told[-1]["response"]["usage"] is None
