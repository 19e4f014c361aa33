"""How a smoke run reaches the system, and what it says when it cannot."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop.admin.forwards import Forwards
from iop.config.inventory import Inventory
from smoke.reach import KEY_VARIABLE, Reach, api_key, edge_command, plain, reach, token_options, where
from tests.fakes import fake_ssh
from tests.fakes.quiet_http import Quiet, served_by
from tests.fakes.remote_inventory import NAMES, remote
from tests.fakes.smoke_story import inventory


class Door(Quiet):
    """An OpenAI port that asks for the key `right`."""

    def answer(self) -> None:
        """Answer without a body."""
        self.send_response(200 if self.headers.get("Authorization") == "Bearer right" else 401)
        self.send_header("x-request-id", "1")
        self.send_header("content-length", "0")
        self.end_headers()


class Website(Quiet):
    """Another HTTP server."""

    def answer(self) -> None:
        """What is asked for is not there."""
        self.say(404)


class Mail(Quiet):
    """A program that speaks no HTTP."""

    def answer(self) -> None:
        """Its own greeting."""
        self.wfile.write(b"220 mail\r\n")


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a `Door`."""
    with served_by(Door) as number:
        yield number


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of PATH for the scripted ssh; no key in the environment."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "bin"


def _there(folder: Path, behaviour: str, tmp_path: Path, port: int) -> Inventory:
    fake_ssh.install(folder, {f"{name}.test": behaviour for name in NAMES})
    return remote(tmp_path, {"control": port, "openai": port, "nodes": 1, "admin": port})


def _reach(of: Inventory) -> Reach:
    forwards = Forwards(of, patience=60)
    try:
        return reach(of, forwards)
    finally:
        forwards.close()


def test_a_remote_edge_is_reached_through_forwards(
    folder: Path, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of this machine, other than the inventory's; with the right key nothing is in the way."""
    there = _there(folder, "ok", tmp_path, port)
    monkeypatch.setenv(KEY_VARIABLE, "right")

    found = _reach(there)

    assert found.trouble == ""
    assert found.openai.startswith("http://127.0.0.1:")
    assert found.openai != plain(there).openai


@pytest.mark.parametrize(
    ("behaviour", "words"), [("unknown-key", "host key of mac"), ("timed-out", "mac (mac.test) cannot be reached")]
)
def test_a_host_that_cannot_be_reached_is_told(
    folder: Path, tmp_path: Path, port: int, behaviour: str, words: str
) -> None:
    """The run then has one reason for everything, and it is ssh's."""
    assert words in _reach(_there(folder, behaviour, tmp_path, port)).trouble


def test_a_closed_port_and_a_missing_key_are_told(
    folder: Path, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody behind the forward; somebody who asks for a key; somebody who refuses it."""
    assert "nothing listens on 127.0.0.1:1 of mac" in _reach(_there(folder, "ok", tmp_path, 1)).trouble

    there = _there(folder, "ok", tmp_path, port)
    assert f"asks for a key: set {KEY_VARIABLE}" in _reach(there).trouble
    monkeypatch.setenv(KEY_VARIABLE, "wrong")
    assert "refuses the key" in _reach(there).trouble
    assert "wrong" not in _reach(there).trouble


def test_on_loopback_an_edge_that_does_not_answer_is_one_reason_for_everything(folder: Path, tmp_path: Path) -> None:
    """It is told with the address, and with what shows more."""
    found = _reach(inventory(tmp_path))

    assert found.trouble.startswith("http://127.0.0.1:1/v1 does not answer: ")
    assert found.trouble.endswith("is test deployed, and does it run? (fab status --target test)")
    assert not folder.exists()


@pytest.mark.parametrize("stranger", [Website, Mail])
def test_a_stranger_on_the_port_is_named(folder: Path, tmp_path: Path, stranger: type[Quiet]) -> None:
    """The port is taken, and by whom."""
    with served_by(stranger) as port:
        found = _reach(inventory(tmp_path, openai=port))

    assert found.trouble.startswith(f"port {port} is taken: "), found
    assert f"(pid {os.getpid()})" in found.trouble
    assert found.trouble.endswith("and it is no Edge of iop")


def test_a_key_comes_from_the_environment_or_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable goes first; a file that holds none is trouble that names it."""
    here = inventory(tmp_path).model_copy(update={"smoke_api_key_file": "secret/key"})
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("sk-1\n", encoding="utf-8")

    assert api_key(inventory(tmp_path)) is None
    assert api_key(here) == "sk-1"
    monkeypatch.setenv(KEY_VARIABLE, "sk-2")
    assert api_key(here) == "sk-2"
    monkeypatch.delenv(KEY_VARIABLE)
    (tmp_path / "secret" / "key").write_text("two\nlines", encoding="utf-8")
    assert "holds no API key" in _reach(here).trouble
    (tmp_path / "secret" / "key").unlink()
    assert "secret/key" in _reach(here).trouble
    assert not folder.exists()


def test_the_live_config_is_asked_about_on_the_edges_host(tmp_path: Path) -> None:
    """The deployed program with the deployed file; there the token lies among the host's own."""
    here, there = inventory(tmp_path), remote(tmp_path)

    assert edge_command(here)[-2:] == ["--config", f"{here.home}/edge.yaml"]
    assert token_options(here) == []
    assert edge_command(there)[0] == "/srv/iop/current/venv/bin/python"
    assert edge_command(there)[-1] == "/srv/iop/shared/edge.yaml"
    assert token_options(there)[-1] == "/srv/iop/shared/tokens/admin.token"


def test_evidence_names_real_hosts_only(tmp_path: Path) -> None:
    """On loopback the banner says what it is about."""
    assert where(inventory(tmp_path)) == {}
    assert where(remote(tmp_path))["gx10"] == "gx10.test"
