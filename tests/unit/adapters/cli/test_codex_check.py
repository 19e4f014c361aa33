"""Asking Codex about itself."""

import pytest

from iop.adapters.cli import codex_check
from iop.adapters.cli.codex_check import CodexFacts, examine
from tests.fakes.codex import FakeCodex

VERSION = "codex-cli 0.171.0"
NO_LOGIN_NEEDED = "its model provider needs no login of OpenAI"


async def test_with_an_app_server(tmp_path):
    """One process of the app-server tells of itself and of the login; no thread is started."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok")
    assert await examine(codex.target(), "linux") == CodexFacts(VERSION, True, True, NO_LOGIN_NEEDED)
    assert codex.got("thread/start") == []


async def test_login_by_the_app_server(tmp_path):
    """An account that is needed is missing, and then there."""
    codex = FakeCodex(tmp_path, app_server="app_server_ok", needs_login=True)
    assert await examine(codex.target(), "linux") == CodexFacts(VERSION, True, False, "Not logged in")
    codex.login_file.touch()
    assert await examine(codex.target(), "linux") == CodexFacts(VERSION, True, True, "logged in (chatgpt account)")


async def test_without_an_app_server(tmp_path):
    """An older version is asked by `login status`."""
    codex = FakeCodex(tmp_path, exec="exec_ok", needs_login=True)
    assert await examine(codex.target(), "linux") == CodexFacts(VERSION, False, False, "Not logged in")
    codex.login_file.touch()
    assert await examine(codex.target(), "linux") == CodexFacts(VERSION, False, True, "Logged in using ChatGPT")


ANSWERED = ['> {"method": "initialize"}', '{"id":1,"result":{}}', '> {"method": "initialized"}', "! wait 1"]


@pytest.mark.parametrize(
    ("transcript", "app_server"),
    [
        ([*ANSWERED, '{"id":2,"error":{"code":-32601,"message":"unknown"}}'], True),
        ([*ANSWERED, "! exit 1"], True),
        (['> {"method": "initialize"}', '{"id":1,"error":{"message":"no"}}'], False),
        (["garbage", "! exit 0"], False),
    ],
)
async def test_an_app_server_of_another_kind(tmp_path, transcript, app_server):
    """One that knows no accounts leaves the login to `login status`; one that does not begin is none."""
    facts = await examine(FakeCodex(tmp_path, app_server=transcript).target(), "linux")
    assert facts == CodexFacts(VERSION, app_server, True, "Logged in using ChatGPT")


async def test_a_codex_that_is_silent(tmp_path, monkeypatch):
    """A program that does not answer is given up."""
    monkeypatch.setattr(codex_check, "ANSWERED_WITHIN", 1.0)
    with pytest.raises(TimeoutError):
        await examine(FakeCodex(tmp_path, app_server=["! hang"]).target(), "linux")
