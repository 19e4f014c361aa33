"""Kind text: stdout is the answer, the exit code tells whether it is one."""

import asyncio
import uuid
from contextlib import aclosing

import pytest

from iop.adapters.cli.agent import AgentFailedError, Limits
from iop.adapters.cli.text import answer
from iop.adapters.cli.trees import tree_for
from iop.link.messages import CliTarget
from tests.fakes.agents import living, python


def target(program, **fields):
    """Return a target that runs a Python program."""
    return CliTarget(name="t", kind="text", command=python(program), **fields)


async def collect(wanted, prompt="", limits=Limits()):  # noqa: B008 - frozen
    """Return the pieces of one answer."""
    async with asyncio.timeout(60), aclosing(answer(wanted, prompt, limits, tree_for("linux"))) as pieces:
        return [piece async for piece in pieces]


async def test_prompt_and_answer_keep_their_characters():
    """Prompt and answer travel as UTF-8, nothing added."""
    program = "import sys; sys.stdout.buffer.write(b'<' + sys.stdin.buffer.read() + b'>\\n')"
    assert "".join(await collect(target(program), "é 漢 🙂\n")) == "<é 漢 🙂\n>\n"


async def test_characters_are_never_split():
    """Field case B13: a character written in pieces comes whole; only wrong bytes are replaced."""
    program = (
        "import sys, time\n"
        "for byte in '漢🙂'.encode() + b'\\xff!':\n"
        "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(0.01)"
    )
    pieces = await collect(target(program))
    assert "".join(pieces) == "漢🙂\ufffd!"
    assert all(pieces)


async def test_env_and_cwd(tmp_path):
    """A target's variables are added to the node's, and its folder is where it runs."""
    program = "import os; print(os.getcwd(), os.environ['MINE'], 'PATH' in os.environ)"
    said = await collect(target(program, env={"MINE": "yes"}, cwd=str(tmp_path)))
    assert "".join(said) == f"{tmp_path} yes True\n"


async def test_no_words_are_an_empty_answer():
    """An agent that says nothing and exits 0 has answered."""
    assert await collect(target("pass")) == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "import sys; print('x', file=sys.stderr); print('not logged in', file=sys.stderr); sys.exit(2)",
            "not logged in (exit status 2)",
        ),
        ("import sys; sys.exit(7)", "the agent failed: exit status 7"),
        ("import os; os.kill(os.getpid(), 9)", "the agent failed: ended by signal 9"),
    ],
)
async def test_a_bad_end_is_a_failure_with_its_reason(program, reason):
    """Exit codes other than 0 and signals fail the run, with the last line of stderr."""
    with pytest.raises(AgentFailedError) as caught:
        await collect(target(program))
    assert str(caught.value) == reason


async def test_output_before_a_bad_end_is_passed_on():
    """What was said before the failure has been yielded."""
    seen = []

    async def read():
        async with aclosing(
            answer(target("print('half', flush=True); exit(1)"), "", Limits(), tree_for("linux"))
        ) as pieces:
            async for piece in pieces:
                seen.append(piece)

    with pytest.raises(AgentFailedError):
        await read()
    assert "".join(seen) == "half\n"


@pytest.mark.parametrize("command", [("/no/such/agent",), ("/",)])
async def test_what_cannot_be_started(command):
    """A missing program is a failure that names it."""
    with pytest.raises(AgentFailedError, match=command[0]):
        await collect(CliTarget(name="t", kind="text", command=command))


@pytest.mark.parametrize(
    ("program", "limits", "reason"),
    [
        ("import time; time.sleep(600)", Limits(silence=0.2), "silent for 0.2 s"),
        ("import time; print('a', flush=True); time.sleep(600)", Limits(silence=0.5), "silent for 0.5 s"),
        ("import os, time; os.close(1); time.sleep(600)", Limits(silence=0.5), "silent for 0.5 s"),
        ("import time\nwhile True: print('a', flush=True); time.sleep(0.01)", Limits(10, 0.5), "not done after 0.5 s"),
    ],
)
async def test_limits_end_the_agent(program, limits, reason):
    """Silence and the target's own time limit end the agent for good."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    with pytest.raises(AgentFailedError, match=reason):
        await collect(target(program, env={marker: "1"}), limits=limits)
    assert list(living(marker)) == []


async def test_endless_answers_are_cut():
    """Field case B56: above the cap the agent is ended with a clear reason."""
    endless = target("while True: print('x' * 1000)")

    async def read():
        async with aclosing(answer(endless, "", Limits(), tree_for("linux"), at_most=1_000_000)) as pieces:
            async for _ in pieces:
                pass

    with pytest.raises(AgentFailedError, match="longer than 1000000"):
        await read()


async def test_one_very_long_line():
    """Field case B56: a line of a megabyte, without a line end, is an answer like any other."""
    assert len("".join(await collect(target("import sys; sys.stdout.write('x' * 1_048_576)")))) == 1_048_576


async def test_leaving_early_ends_the_agent():
    """A reader that stops in the middle ends the agent."""
    marker = f"IOP_TEST_{uuid.uuid4().hex}"
    endless = target("import time\nwhile True: print('a', flush=True); time.sleep(0.01)", env={marker: "1"})
    async with asyncio.timeout(60), aclosing(answer(endless, "", Limits(), tree_for("linux"))) as pieces:
        async for _ in pieces:
            break
    assert list(living(marker)) == []
