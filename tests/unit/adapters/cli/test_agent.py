"""What the kinds of agents share."""

import asyncio

import pytest

from iop.adapters.cli.agent import AgentFailedError, Deadlines, Limits, bad_end, cannot_run, command_line
from iop.link.messages import CliTarget

TARGET = CliTarget(name="t", kind="text", command=("agent", "-x"), env={"MINE": "1"}, cwd="/work")


def test_command_line(monkeypatch):
    """The target's own words, then further ones; its variables are added to the node's."""
    monkeypatch.setenv("THEIRS", "2")
    command = command_line(TARGET, "more")
    assert (command.argv, command.cwd) == (("agent", "-x", "more"), "/work")
    assert (command.env["MINE"], command.env["THEIRS"]) == ("1", "2")


def test_failures():
    """Each failure names what is known."""
    assert str(bad_end(3, "words")) == "words (exit status 3)"
    assert str(bad_end(-15, "")) == "the agent failed: ended by signal 15"
    assert str(cannot_run(TARGET, FileNotFoundError(2, "No such file"))) == (
        "the agent cannot be run: agent in /work: No such file"
    )


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(silence=0.01, total=60), "the agent was silent for 0.01 s"),
        (Limits(silence=60, total=0.01), "the agent was not done after 0.01 s"),
    ],
)
async def test_deadlines(limits, reason):
    """The nearer limit is the one that is told."""
    with pytest.raises(AgentFailedError, match=reason):
        async with Deadlines(limits).waiting():
            await asyncio.sleep(60)


async def test_no_limits():
    """Without limits nothing is cut."""
    async with Deadlines(Limits()).waiting():
        await asyncio.sleep(0)
