"""Codex by `codex exec --json`: recorded runs of the real one."""

import asyncio
from contextlib import aclosing

import pytest

from iop.adapters.cli.agent import AgentFailedError, Limits, NewMessage
from iop.adapters.cli.codex_exec import answer, arguments
from iop.adapters.cli.codex_words import Settings
from iop.adapters.cli.trees import tree_for
from iop.link.messages import CliTarget
from iop.openai.answers import Usage
from tests.fakes.codex import FakeCodex

TEXT = "Hi from the fake model."


async def collect(target, prompt="say hi", limits=Limits(silence=60)):  # noqa: B008 - frozen
    """Return all that is said."""
    async with asyncio.timeout(60), aclosing(answer(target, prompt, limits, tree_for("linux"))) as answering:
        return [piece async for piece in answering]


async def test_a_recorded_run(tmp_path):
    """Messages come whole, then the tokens; field case B59: the prompt is on stdin only, byte for byte."""
    codex = FakeCodex(tmp_path, exec="exec_ok")
    prompt = "---\n--help $(id) é"
    assert await collect(codex.target("-m", "x"), prompt) == [NewMessage(), TEXT, Usage(11, 3)]
    (asked,) = codex.log()
    assert asked["stdin"] == prompt
    safe = ["--sandbox", "read-only", "-c", 'approval_policy="never"']
    assert asked["argv"] == ["-m", "x", "exec", "--json", "--skip-git-repo-check", "--ephemeral", *safe, "-"]


def test_the_operators_own_words_win():
    """What `command` sets itself is not set again."""
    plain = ("exec", "--json", "--skip-git-repo-check", "--ephemeral", "-")
    assert arguments(Settings(sandbox=None, approval=None)) == plain


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ("exec_toolfail", [NewMessage(), TEXT, Usage(22, 6)]),
        ("exec_droponce", [NewMessage(), TEXT, Usage(11, 3)]),
        ("exec_reasoning", [NewMessage(), "First I look.", NewMessage(), TEXT, Usage(11, 3)]),
        ("exec_emptyoutput", [NewMessage(), TEXT, Usage(11, 3)]),
    ],
)
async def test_recorded_runs_with_something_on_the_way(tmp_path, capture, said):
    """Warnings, attempts to reconnect, tools and reasoning are neither failures nor text."""
    assert await collect(FakeCodex(tmp_path, exec=capture).target()) == said


@pytest.mark.parametrize(
    ("capture", "reason"),
    [
        ("exec_failed", "^stream disconnected before completion: host died$"),
        ("exec_503", "^unexpected status 503 Service Unavailable: no healthy host"),
        ("exec_incomplete", "^Incomplete response returned, reason: max_output_tokens$"),
        ("exec_deltas_only", "^the turn ended without a message$"),
        ("exec_wirechat", r"^Error loading config.toml: `wire_api = \"chat\"` is no longer supported.*exit status 1"),
    ],
)
async def test_recorded_failures(tmp_path, capture, reason):
    """A run that fails tells why, by its last event or on stderr."""
    with pytest.raises(AgentFailedError, match=reason):
        await collect(FakeCodex(tmp_path, exec=capture).target())


MESSAGE = '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"x"}}'


@pytest.mark.parametrize(
    ("transcript", "reason"),
    [
        ([MESSAGE, "! exit 0"], "ended before its turn was completed"),
        ([MESSAGE, '{"type":"turn.completed"}', "! stderr late", "! exit 4"], r"late \(exit status 4\)"),
        (["only", "noise", "! exit 0"], "ended before its turn was completed"),
        (["! kill"], "ended by signal 9"),
        (['{"type":"turn.failed"}'], "without a reason"),
    ],
)
async def test_each_way_to_fail_has_its_reason(tmp_path, transcript, reason):
    """An early end, a bad exit code, garbage, a crash: a failure with its reason, never an empty success."""
    with pytest.raises(AgentFailedError, match=reason):
        await collect(FakeCodex(tmp_path, exec=transcript).target())


async def test_the_last_line_may_be_unterminated(tmp_path):
    """Field case B56: the last event counts without a line end, noise and colours around events do not hurt."""
    lines = ["\x1b[1mnoise\x1b[0m", f"\x1b[32m{MESSAGE}\x1b[0m", '! stdout {"type":"turn.completed"}', "! exit 0"]
    assert await collect(FakeCodex(tmp_path, exec=lines).target()) == [NewMessage(), "x"]


async def test_silence_is_a_failure(tmp_path):
    """A Codex that says nothing any more is ended."""
    with pytest.raises(AgentFailedError, match="silent for 1 s"):
        await collect(FakeCodex(tmp_path, exec=["! hang"]).target(), limits=Limits(silence=1))


async def test_no_program():
    """A program that is not there is a failure that names it."""
    with pytest.raises(AgentFailedError, match="/no/such/codex"):
        await collect(CliTarget(name="t", kind="codex", command=("/no/such/codex",)))
