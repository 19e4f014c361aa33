"""The real Codex CLI as an agent of iop, its model provider pointed at a scripted engine.

Runs where Codex is installed: `IOP_CODEX` names it, else `build/clients/node_modules/.bin/codex`
(`npm install --prefix build/clients @openai/codex`).
"""

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import openai
import pytest

from iop.adapters.cli import codex_exec
from iop.adapters.cli.agent import AgentFailedError, Limits, NewMessage
from iop.adapters.cli.readiness import look
from iop.adapters.cli.trees import tree_for
from iop.link.messages import CliTarget
from iop.openai.answers import Usage
from tests.fakes.fake_up import LAST_CHUNK, Exchange, FakeUp, Script, chunk, response, stream_head
from tests.fakes.stack import RESPONSES, Engine, Stack, answer_ok, stack
from tests.fakes.until import until

CODEX = Path(os.environ.get("IOP_CODEX", Path(__file__).parents[2] / "build/clients/node_modules/.bin/codex"))
WORDS = ["Hi ", "from ", "the ", "fake ", "model."]
USAGE = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}

pytestmark = [
    pytest.mark.skipif(not CODEX.exists(), reason=f"Codex is not installed: {CODEX} does not exist (or set IOP_CODEX)"),
    pytest.mark.timeout(180),
]


def event(kind: str, **fields: Any) -> bytes:
    """One event of a Responses stream as a chunk."""
    return chunk(f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())


def item(status: str, text: str = "") -> dict[str, Any]:
    """The message of the answer."""
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"id": "msg_1", "type": "message", "status": status, "role": "assistant", "content": content}


async def begin(exchange: Exchange) -> None:
    """The answer's head and what comes before its first word."""
    await exchange.send(stream_head())
    await exchange.send(event("response.created", response={"id": "resp_1"}))
    await exchange.send(event("response.output_item.added", output_index=0, item=item("in_progress")))


async def say(exchange: Exchange, *words: str) -> None:
    """More words."""
    for word in words:
        await exchange.send(event("response.output_text.delta", item_id="msg_1", output_index=0, delta=word))


async def finish(exchange: Exchange, done: dict[str, Any]) -> None:
    """The item that is done and the end."""
    await exchange.send(event("response.output_item.done", output_index=0, item=done))
    await exchange.send(event("response.completed", response={"id": "resp_1", "usage": USAGE}) + LAST_CHUNK)


async def whole_answer(exchange: Exchange) -> None:
    """A model in its best health."""
    await begin(exchange)
    await say(exchange, *WORDS)
    await finish(exchange, item("completed", "".join(WORDS)))


def codex(folder: Path, model: FakeUp | None, *words: str) -> dict[str, Any]:
    """A target of kind codex; without a model Codex wants a login of OpenAI.

    Codex runs login shells, which read the files of HOME: it is an empty folder here. Those of a user may take any
    time, and may leave a lock behind when they end early (`pyenv init` does: each later shell then waits a minute).
    """
    home = folder / "codex-home"
    home.mkdir(exist_ok=True)
    if model is not None:
        (home / "config.toml").write_text(
            'model = "fake"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{model.url}"\nwire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
        )
    (folder / "work").mkdir(exist_ok=True)
    env = {"CODEX_HOME": str(home), "HOME": str(home)}
    return {"kind": "codex", "command": [str(CODEX), *words], "env": env, "cwd": str(folder / "work")}


def target(folder: Path, model: FakeUp | None) -> CliTarget:
    """The same as the node sees it."""
    entry = codex(folder, model)
    return CliTarget(name="codex", **{**entry, "command": tuple(entry["command"])})


class Running:
    """A stack whose model `codex` is the real Codex over a scripted model."""

    def __init__(self, folder: Path, script: Script, *words: str) -> None:
        self.model = FakeUp(script)
        self._folder = folder
        self._words = words

    async def __aenter__(self) -> Stack:
        await self.model.__aenter__()
        agents = {"codex": codex(self._folder, self.model, *self._words)}
        self._stack = stack(self._folder, Engine(answer_ok), agents=agents)
        return await self._stack.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._stack.__aexit__(*error)
        finally:
            await self.model.__aexit__(None, None, None)


async def test_chat_and_responses_with_the_official_sdk(tmp_path: Path) -> None:
    """Token by token on both APIs, streamed or not, with the final text equal to the deltas and the tokens told."""
    text = "".join(WORDS)
    async with Running(tmp_path, whole_answer) as s:
        async with openai.AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0) as client:
            async with client.responses.stream(model="codex", input="say hi") as answer:
                deltas = [event.delta async for event in answer if event.type == "response.output_text.delta"]
                final = await answer.get_final_response()
            assert deltas == WORDS
            assert (final.output_text, final.usage.total_tokens) == (text, 14)

            done = await client.responses.create(model="codex", input="say hi")
            assert (done.output_text, done.usage.input_tokens) == (text, 11)

            messages: Any = [{"role": "user", "content": "say hi"}]
            chat = await client.chat.completions.create(model="codex", messages=messages)
            assert (chat.choices[0].message.content, chat.usage.completion_tokens) == (text, 3)

            options: Any = {"include_usage": True}
            chunks = [
                part
                async for part in await client.chat.completions.create(
                    model="codex", messages=messages, stream=True, stream_options=options
                )
            ]
            assert "".join(part.choices[0].delta.content or "" for part in chunks if part.choices) == text
            assert chunks[-1].usage.total_tokens == 14
        await s.idle()
        assert s.direct()["completed"] == 4
        assert s.totals("received", "admitted") == (0, 0)


async def test_status_tells_that_it_is_ready(tmp_path: Path) -> None:
    """The real program says of itself that it can be used: its provider needs no login."""

    def seen(status: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = status["nodes"][0]["adapters"][0]["targets"]
        return found

    async with Running(tmp_path, whole_answer) as s:
        status = await s.until(lambda status: seen(status)[0]["ready"])
        assert seen(status) == [{"name": "codex", "kind": "codex", "ready": True, "reason": None}]


async def test_without_a_login_it_is_not_ready(tmp_path: Path) -> None:
    """A Codex that wants a login says so before it is asked anything else."""
    verdict = await look(target(tmp_path, None))
    assert not verdict.ready
    assert verdict.reason is not None
    assert verdict.reason.startswith("Codex is not logged in (Not logged in); run `codex login`")
    async with stack(tmp_path, Engine(answer_ok), agents={"codex": codex(tmp_path, None)}) as s:
        answer = await s.post({"model": "codex", "input": "hi"}, RESPONSES)
        assert (answer.status, answer.json["error"]["code"]) == (502, "agent_failed")
        assert "not logged in" in answer.json["error"]["message"]


async def test_a_refusal_of_its_model_is_the_reason(tmp_path: Path) -> None:
    """What Codex' model provider refuses is told as an error, never as an empty answer."""

    async def refuse(exchange: Exchange) -> None:
        await exchange.send(response(400, b'{"error": {"message": "context too long", "type": "x", "code": null}}'))

    async with Running(tmp_path, refuse) as s:
        answer = await s.post({"model": "codex", "input": "hi"}, RESPONSES)
        assert (answer.status, answer.json["error"]["code"]) == (502, "agent_failed")
        assert "context too long" in answer.json["error"]["message"]


async def test_a_model_that_breaks_off_is_an_error_event(tmp_path: Path) -> None:
    """Text that has been streamed is followed by the failure, not by a good end."""

    async def break_off(exchange: Exchange) -> None:
        await begin(exchange)
        await say(exchange, "Hi ")
        exchange.reset()

    async with Running(tmp_path, break_off) as s:
        answer = await s.post({"model": "codex", "input": "hi", "stream": True}, RESPONSES)
        assert answer.status == 200
        assert b'"delta":"Hi "' in answer.body
        assert b"response.failed" in answer.body
        assert b"response.completed" not in answer.body


async def test_a_client_that_leaves_ends_codex_and_its_request(tmp_path: Path) -> None:
    """The model sees its client gone, and no process of Codex is left when the run is over."""
    left = asyncio.Event()

    async def talk(exchange: Exchange) -> None:
        await begin(exchange)
        await say(exchange, "Hi ")
        await exchange.peer_left.wait()
        left.set()

    async with Running(tmp_path, talk) as s:
        client = await s.open({"model": "codex", "input": "hi", "stream": True}, RESPONSES)
        await client.until(b'"delta":"Hi "')
        client.close()
        await s.idle()
        assert s.direct()["cancelled"] == 1
        async with asyncio.timeout(20):
            await left.wait()


async def test_b55_a_command_that_codex_runs_ends_with_the_run(tmp_path: Path) -> None:
    """Field case B55 with the real thing: the tool's `sleep`, in a session of its own, is gone with its client."""
    done = tmp_path / "work" / "started"
    outputs: list[str] = []

    async def call_a_tool(exchange: Exchange) -> None:
        await exchange.send(stream_head())
        await exchange.send(event("response.created", response={"id": "resp_1"}))
        if b"function_call_output" in exchange.body:
            # Codex does not wait for a command's end (10 s): it tells the model what there is, which thinks on
            outputs.append(exchange.json["input"][-1]["output"])
            await exchange.peer_left.wait()
            return
        arguments = json.dumps({"cmd": f"touch {done}; sleep 600"})
        call = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c", "name": "exec_command"}
        await finish(exchange, call | {"arguments": arguments})

    words = ("-c", 'sandbox_mode="danger-full-access"')
    async with Running(tmp_path, call_a_tool, *words) as s:
        client = await s.open({"model": "codex", "input": "hi", "stream": True}, RESPONSES)
        await until(lambda: done.exists() or any("running" not in output for output in outputs), within=60)
        assert done.exists(), outputs
        client.close()
        await s.idle()


async def test_exec_says_the_same(tmp_path: Path) -> None:
    """`codex exec --json` gives the same text and tokens, its message whole."""
    async with FakeUp(whole_answer) as model:
        answering = codex_exec.answer(target(tmp_path, model), "say hi", Limits(silence=60), tree_for("linux"))
        async with aclosing(answering) as said:
            assert [piece async for piece in said] == [NewMessage(), "".join(WORDS), Usage(11, 3)]


async def test_exec_tells_what_is_wrong_with_its_config(tmp_path: Path) -> None:
    """A config that Codex refuses is the reason, from its first word."""
    async with FakeUp(whole_answer) as model:
        wanted = target(tmp_path, model)
        config = tmp_path / "codex-home" / "config.toml"
        config.write_text(config.read_text().replace('"responses"', '"chat"'))
        answering = codex_exec.answer(wanted, "say hi", Limits(silence=60), tree_for("linux"))

        async def read() -> None:
            async with aclosing(answering) as said:
                async for _ in said:
                    pass

        with pytest.raises(AgentFailedError, match=r"^Error loading config.toml: `wire_api = \"chat\"`"):
            await read()
