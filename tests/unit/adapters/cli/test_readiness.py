"""Which agents can be run here and now."""

import asyncio
import getpass

import pytest

from iop.adapters.cli import readiness
from iop.adapters.cli.readiness import AGAIN_AFTER, ROUND_AFTER, Readiness, Verdict, look, user
from iop.link.messages import CliTarget
from tests.fakes.agents import python
from tests.fakes.codex import PROGRAM, FakeCodex

TARGET = CliTarget(name="t", kind="text", command=python("pass"))


class Looks:
    """Stands for `look`: gives verdicts in order and counts; `clock` is the time."""

    def __init__(self, monkeypatch, *verdicts):
        self.verdicts = list(verdicts)
        self.count = 0
        self.clock = 0.0
        monkeypatch.setattr(readiness, "look", self)

    async def __call__(self, target, platform):
        self.count += 1
        await asyncio.sleep(0)
        return self.verdicts.pop(0)

    def readiness(self):
        """Return the object under test."""
        return Readiness([TARGET], "linux", clock=lambda: self.clock)


GOOD = Verdict(ready=True, command=("x",))
BAD = Verdict(ready=False, reason="why")


async def test_text_agents(tmp_path):
    """A text agent is ready when its program and its folder are there; the reason says what to do."""
    assert await look(TARGET, "linux") == Verdict(ready=True, command=TARGET.command)
    missing = CliTarget(name="t", kind="text", command=("no-such-agent",))
    assert "no-such-agent is not on PATH" in (await look(missing, "linux")).reason
    away = CliTarget(name="t", kind="text", command=TARGET.command, cwd=str(tmp_path / "none"))
    assert (await look(away, "linux")).reason == f"its folder {tmp_path}/none does not exist; make it or change cwd"


async def test_codex(tmp_path):
    """Codex is asked itself; what it takes to be ready is told with the account to use."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok", needs_login=True)
    verdict = await look(codex.target(), "linux")
    assert not verdict.ready
    assert verdict.reason.endswith(f"run `codex login` as the user {getpass.getuser()} who runs this node")
    codex.login_file.touch()
    verdict = await look(codex.target(), "linux")
    assert (verdict.ready, verdict.command, verdict.codex.app_server) == (True, PROGRAM, True)


async def test_a_codex_that_cannot_be_asked(tmp_path, monkeypatch):
    """A program that is silent, or is no program, is not ready."""
    monkeypatch.setattr("iop.adapters.cli.codex_check.ANSWERED_WITHIN", 0.5)
    silent = FakeCodex(tmp_path, app_server=["! hang"]).target()
    assert "does not answer" in (await look(silent, "linux")).reason
    broken = tmp_path / "codex"
    broken.write_bytes(b"\x7fELF nothing")
    broken.chmod(0o755)
    verdict = await look(CliTarget(name="t", kind="codex", command=(str(broken),)), "linux")
    assert "cannot be started" in verdict.reason


async def test_a_good_verdict_stays_until_a_run_fails(monkeypatch):
    """Requests do not look again at what is ready, but after a failure, and not too often."""
    looks = Looks(monkeypatch, GOOD, BAD, GOOD)
    known = looks.readiness()
    assert [await known.verdict(TARGET) for _ in range(3)] == [GOOD] * 3
    assert looks.count == 1
    known.doubt("t")
    assert await known.verdict(TARGET) == GOOD
    looks.clock += AGAIN_AFTER
    assert await known.verdict(TARGET) == BAD
    assert await known.verdict(TARGET) == BAD
    assert looks.count == 2
    looks.clock += AGAIN_AFTER
    assert await known.verdict(TARGET) == GOOD


async def test_rounds_look_at_what_is_not_ready(monkeypatch):
    """The first round looks at all, later ones seldom and only at what is not ready."""
    looks = Looks(monkeypatch, BAD, GOOD)
    known = looks.readiness()
    assert [(t.ready, t.reason) for t in known.infos()] == [(False, "not checked yet")]
    for wait, count, ready in (
        (0, 1, False),
        (ROUND_AFTER / 2, 1, False),
        (ROUND_AFTER, 2, True),
        (ROUND_AFTER, 2, True),
    ):
        looks.clock += wait
        await known.round()
        assert (looks.count, known.infos()[0].ready) == (count, ready)


async def test_requests_at_the_same_time_look_once(monkeypatch):
    """Whoever comes while a look is under way waits for it."""
    looks = Looks(monkeypatch, GOOD)
    known = looks.readiness()
    assert await asyncio.gather(*(known.verdict(TARGET) for _ in range(5))) == [GOOD] * 5
    assert looks.count == 1


def test_a_user_without_a_name(monkeypatch):
    """A process whose user has no name is still told about."""

    def unknown():
        raise KeyError

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert user() == "that this process has"


@pytest.mark.parametrize("kind", ["text", "codex"])
def test_infos_tell_the_kind(kind):
    """What is told names target and kind."""
    (info,) = Readiness([CliTarget(name="a", kind=kind, command=("x",))], "linux").infos()
    assert (info.name, info.kind) == ("a", kind)
