"""The CLI adapter: agents answer as chat completions and as responses."""

import asyncio
import json
import re
import sys
import uuid

import pytest

from iop.adapters.cli.adapter import CliAdapter
from iop.adapters.contract import ProbeResult, RunEnd, RunRequest
from iop.domain.effects import Outcome
from iop.link.messages import CliTarget
from iop.openai.watch import StreamWatch
from tests.fakes.agents import STUBBORN_TREE, living, python
from tests.fakes.codex import COMPLETED as COMPLETED_TURN
from tests.fakes.codex import OPENING, FakeCodex, delta
from tests.fakes.sink import KeptAnswer
from tests.fakes.until import until

COMPLETED = RunEnd(Outcome.COMPLETED)
ECHO = "import sys; sys.stdout.buffer.write(b'agent: ' + sys.stdin.buffer.read())"
BODIES = {
    "chat.completions": {"messages": [{"role": "user", "content": "hé"}]},
    "responses": {"input": "hé"},
}


def make(program=ECHO, *, kind="text", **fields):
    """Return an adapter with the one target `t`."""
    target = CliTarget(name="t", kind=kind, command=python(program), **fields)
    return CliAdapter([target], clock=lambda: 1000.9, serial=lambda: "abc")


def ask(operation="chat.completions", *, stream=False, body=None, **fields):
    """Return a request for the target `t`."""
    data = json.dumps(body or BODIES[operation]).encode()
    defaults = {"request_id": "r", "target": "t", "model": "codex", "idle_timeout": 30.0}
    return RunRequest(operation=operation, stream=stream, body=data, **{**defaults, **fields})


async def run(adapter, request):
    """Run one request; return its end and the sink."""
    sink = KeptAnswer()
    async with asyncio.timeout(60):
        return await adapter.run(request, sink), sink


async def test_contract():
    """The adapter is `cli`, without a bound, and always up."""
    adapter = make()
    assert (adapter.name, adapter.type, adapter.max_concurrency) == ("cli", "cli", 0)
    assert await adapter.probe() == ProbeResult(up=True)
    await adapter.close()


async def test_whole_chat():
    """A chat answer holds exactly what the agent said."""
    end, sink = await run(make(), ask())
    assert (end, sink.status, sink.headers["content-type"]) == (COMPLETED, 200, "application/json")
    answer = json.loads(sink.data)
    assert answer["choices"][0]["message"]["content"] == "agent: hé"
    assert (answer["id"], answer["model"], answer["created"]) == ("chatcmpl-abc", "codex", 1000)


async def test_whole_response():
    """A response holds exactly what the agent said."""
    _, sink = await run(make(), ask("responses"))
    answer = json.loads(sink.data)
    assert (answer["status"], answer["output"][0]["content"][0]["text"]) == ("completed", "agent: hé")


@pytest.mark.parametrize("operation", BODIES)
async def test_streams_end_well(operation):
    """A stream is one of its API: it begins, tells the text and ends with the API's own end."""
    end, sink = await run(make(), ask(operation, stream=True))
    assert (end, sink.status) == (COMPLETED, 200)
    assert sink.headers["content-type"] == "text/event-stream; charset=utf-8"
    watch = StreamWatch(operation)
    watch.feed(sink.data)
    assert watch.finished_well(close_delimited=True)
    assert b"agent: h\\u00e9" in sink.data


async def test_a_stream_comes_as_the_agent_speaks():
    """Text is passed on while the agent still runs."""
    sink = KeptAnswer()
    adapter = make("import sys; print('one', flush=True); import time; time.sleep(600)")
    task = asyncio.ensure_future(adapter.run(ask(stream=True), sink))
    await until(lambda: b"one" in sink.data)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("operation", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_silence_with_exit_0_is_an_empty_answer(operation, stream):
    """No output and exit 0: a whole, empty answer."""
    end, sink = await run(make("pass"), ask(operation, stream=stream))
    assert (end, sink.status) == (COMPLETED, 200)
    assert sink.data


@pytest.mark.parametrize("stream", [False, True])
async def test_failure_before_output_has_no_head(stream):
    """Not logged in: the reason is told as an end, so that the client gets a real status."""
    end, sink = await run(make("import sys; sys.exit('please log in')"), ask(stream=stream))
    assert end == RunEnd(Outcome.FAILED, "agent_failed", "please log in (exit status 1)")
    assert sink.status is None


async def test_failure_after_output():
    """A stream that has begun fails without the API's end; a plain answer is not sent at all."""
    program = "print('half', flush=True); import sys; sys.exit('boom')"
    end, sink = await run(make(program), ask(stream=True))
    assert end.failure == "agent_failed"
    assert b"half" in sink.data
    assert b"[DONE]" not in sink.data
    end, sink = await run(make(program), ask(stream=False))
    assert (end.failure, sink.status) == ("agent_failed", None)


async def test_silence_ends_the_agent():
    """An agent that says nothing for `idle_timeout` is ended, with the reason."""
    end, sink = await run(make("import time; time.sleep(600)"), ask(stream=True, idle_timeout=0.3))
    assert end == RunEnd(Outcome.FAILED, "agent_failed", "the agent was silent for 0.3 s")
    assert sink.status is None


async def test_a_targets_own_timeout():
    """`timeout` of the target bounds the whole run."""
    end, _ = await run(make("import time; time.sleep(600)", timeout=0.3), ask())
    assert end.detail == "the agent was not done after 0.3 s"


async def test_cancel_takes_the_whole_tree_along():
    """Field cases B03, B55: a client that leaves ends the agent with all that it started, before the run ends."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    sink = KeptAnswer()
    adapter = make(STUBBORN_TREE + "time.sleep(600)", env={marker: "1"})
    task = asyncio.ensure_future(adapter.run(ask(stream=True), sink))
    await until(lambda: b"up" in sink.data)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert list(living(marker)) == []


async def test_nul_is_a_bad_request():
    """Field case B59: a prompt with NUL is answered 400 in OpenAI's shape; no agent is started."""
    body = {"messages": [{"role": "user", "content": "a\0b"}]}
    adapter = CliAdapter([CliTarget(name="t", kind="text", command=("/no/such/agent",))])
    end, sink = await run(adapter, ask(body=body))
    assert (end, sink.status) == (COMPLETED, 400)
    assert set(json.loads(sink.data)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"target": "other"}, "this node has no CLI target 'other'"),
        ({"target": None}, "this node has no CLI target None"),
    ],
)
async def test_unknown_target(fields, detail):
    """A target that is not in the node's config is told by name."""
    end, _ = await run(make(), ask(**fields))
    assert end == RunEnd(Outcome.FAILED, "agent_failed", detail)


@pytest.mark.parametrize("ways", [{"app_server": "app_server_ok"}, {"exec": "exec_ok"}])
@pytest.mark.parametrize("operation", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_codex(tmp_path, ways, operation, stream):
    """Codex answers by the way that its version has, in the API's shape, with the tokens."""
    codex = FakeCodex(tmp_path, **ways)
    adapter = CliAdapter([codex.target()], clock=lambda: 1000.9, serial=lambda: "abc")
    body = {**BODIES[operation], "stream_options": {"include_usage": True}}
    end, sink = await run(adapter, ask(operation, stream=stream, body=body))
    assert (end, sink.status) == (COMPLETED, 200)
    text = b"".join(re.findall(rb'"(?:content|delta)":"([^"]*)"', sink.data)) if stream else sink.data
    assert b"Hi from the fake model." in text
    assert b'"total_tokens":14' in sink.data.replace(b" ", b"")
    if stream:
        watch = StreamWatch(operation)
        watch.feed(sink.data)
        assert watch.finished_well(close_delimited=True)


async def test_messages_of_codex_are_set_apart(tmp_path):
    """Two messages of one turn have an empty line between them; what is said again is told once where it can be."""
    broken = '{"method":"error","params":{"willRetry":true,"error":{"message":"x"}}}'
    lines = [*OPENING, delta("One."), delta("Tw", "m2"), broken, delta("Two.", "m3"), COMPLETED_TURN]
    adapter = CliAdapter([FakeCodex(tmp_path, app_server=lines).target()])
    _, sink = await run(adapter, ask())
    assert json.loads(sink.data)["choices"][0]["message"]["content"] == "One.\n\nTwo."
    _, sink = await run(adapter, ask(stream=True))
    pieces = re.findall(rb'"content":"([^"]*)"', sink.data)
    assert b"".join(pieces) == b"One.\\n\\nTw\\n\\nTwo."


async def test_a_target_that_is_not_ready_is_refused_at_once(tmp_path, monkeypatch):
    """Not logged in: the request fails with that reason; after a login it works without a restart."""
    monkeypatch.setattr("iop.adapters.cli.readiness.AGAIN_AFTER", 0.0)
    codex = FakeCodex(tmp_path, app_server="app_server_ok", needs_login=True)
    adapter = CliAdapter([codex.target()])
    assert [(t.name, t.kind, t.ready, t.reason) for t in adapter.targets()] == [
        ("t", "codex", False, "not checked yet")
    ]
    end, sink = await run(adapter, ask())
    assert (end.failure, sink.status) == ("agent_failed", None)
    assert end.detail.startswith("the agent t is not ready: Codex is not logged in (Not logged in); run `codex login`")
    assert codex.got("thread/start") == []
    codex.login_file.touch()
    end, _ = await run(adapter, ask())
    assert end == COMPLETED
    assert [(t.ready, t.reason) for t in adapter.targets()] == [(True, None)]


async def test_a_look_before_any_request():
    """What can be seen of a text agent is that its program is there."""
    missing = CliTarget(name="gone", kind="text", command=("/no/such/agent",))
    adapter = CliAdapter([CliTarget(name="t", kind="text", command=python("pass")), missing])
    await adapter.look()
    assert [(t.name, t.ready) for t in adapter.targets()] == [("t", True), ("gone", False)]
    assert adapter.targets()[1].reason.startswith("/no/such/agent does not exist; install it")


async def test_the_stand_in_agent():
    """The simulator's agent works as a target."""
    command = (
        sys.executable,
        "-c",
        f"import sys; sys.path[:0] = {sys.path!r}; from iop.commands.simulator import main; main(['agent'])",
    )
    adapter = CliAdapter([CliTarget(name="t", kind="text", command=command)])
    _, sink = await run(adapter, ask())
    assert json.loads(sink.data)["choices"][0]["message"]["content"] == "agent: hé"
