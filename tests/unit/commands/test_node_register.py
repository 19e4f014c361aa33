"""`edge node register`: the file, the token, the texts; and a node that comes in with them."""

import asyncio
import contextlib
import hashlib
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from iop.commands.edge import main
from iop.config.load import load_edge, load_node
from iop.wiring.node import build_node
from tests.fakes.config_files import EDGE, changed
from tests.fakes.edge_under_test import edge_under_test
from tests.fakes.until import until

WHO = ("--id", "attic-node", "--alias", "attic", "--platform", "linux")


def register(path: Path, *more: str, who: tuple[str, ...] = WHO) -> int:
    """Run the command."""
    return main(["--config", str(path), "node", "register", *who, *more])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The interface page's edge.yaml with CRLF, a byte-order mark and a mode of its own."""
    file = tmp_path / "edge.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + ("# ours\n" + EDGE).replace("\n", "\r\n").encode())
    file.chmod(0o640)
    return file


def test_the_node_is_added_and_the_token_told_once(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The config holds the hash and every old byte; the token file is for this user; the result passes the check."""
    before = path.read_bytes()
    assert register(path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    after, token_file = path.read_bytes(), path.parent / "attic-node.token"
    at = next(i for i in range(len(before)) if before[i] != after[i])
    assert after.endswith(before[at:])
    assert b"\n" not in after.replace(b"\r\n", b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (token_file.read_text(), stat.S_IMODE(token_file.stat().st_mode)) == (f"{told['token']}\n", 0o600)
    config = load_edge(path).config
    assert config is not None
    assert (config.nodes[1].id, config.nodes[1].alias) == ("attic-node", "attic")
    assert config.nodes[1].token_sha256 == hashlib.sha256(told["token"].encode()).hexdigest()
    assert told["token"] not in path.read_text()
    assert (told["written"], told["token_file"]) == (True, str(token_file))
    assert told["node_yaml"] in told["bootstrap"]
    assert told["token"] not in told["bootstrap"]


def test_a_dry_run_shows_the_change_and_writes_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A unified diff; no token is made."""
    before = path.read_bytes()
    assert register(path, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "+  - id: attic-node\n+    alias: attic\n" in out
    assert out.endswith("dry-run: nothing was written\n")
    assert [line for line in out.splitlines() if line.startswith("-") and not line.startswith("---")] == []
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["edge.yaml"]


def test_people_read_token_steps_and_commands(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json: diff, token, next steps, then what to run on the host."""
    assert register(path) == 0
    out = capsys.readouterr().out
    token = (path.parent / "attic-node.token").read_text().strip()
    assert out.count(token) == 1
    assert out.index("registered: attic-node") < out.index("Next:") < out.index("systemctl enable --now iop-node")


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (("--id", "n1", "--alias", "a", "--platform", "macos"), "edge.yaml:5: the node n1 is declared here already"),
        (("--id", "n2", "--alias", "", "--platform", "macos"), "would not pass config check"),
        (("--id", "n2", "--alias", "sk-0123456789abcdef", "--platform", "macos"), "secret_in_config"),
    ],
)
def test_what_would_be_wrong_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str], who: tuple[str, ...], told: str
) -> None:
    """Exit code 1 with the place or the finding; nothing is written."""
    before = path.read_bytes()
    assert register(path, who=who) == 1
    assert told in capsys.readouterr().err
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["edge.yaml"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (changed(("capacity: 3", "capcity: 3")), "did you mean capacity?"),
        (changed(("nodes:\n", "x-nodes: &n\n"), ("models:\n", "nodes: *n\nmodels:\n")), "add the node by hand"),
    ],
)
def test_a_file_that_cannot_take_it_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    """A file with errors, and a list that stands elsewhere."""
    path.write_text(text)
    assert register(path) == 1
    assert told in capsys.readouterr().err
    assert path.read_text() == text


def test_a_token_file_is_never_overwritten(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A left-over token may still be in use."""
    before = path.read_bytes()
    (path.parent / "attic-node.token").write_text("old")
    assert register(path) == 1
    assert "exists already" in capsys.readouterr().err
    assert (path.parent / "attic-node.token").read_text() == "old"
    assert path.read_bytes() == before


def test_usage_and_unreadable_files_are_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No --config, no file, no known platform."""
    assert main(["node", "register", *WHO]) == 2
    assert register(tmp_path / "none.yaml") == 2
    assert "nothing was changed" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        register(tmp_path / "none.yaml", who=("--id", "n", "--alias", "a", "--platform", "beos"))
    assert stop.value.code == 2


def test_a_change_by_somebody_else_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changed after it was read is not written over, and the token is taken back."""
    real = load_edge(path)
    monkeypatch.setattr("iop.commands.node_register.load_edge", lambda _path: real)
    path.write_text("theirs")
    assert register(path) == 1
    assert path.read_text() == "theirs"
    assert [one.name for one in path.parent.iterdir()] == ["edge.yaml"]


async def test_a_registered_node_comes_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Register, apply live, start a real node with the printed node.yaml and token: connected; a wrong token is not."""
    async with edge_under_test(tmp_path) as edge:
        told = await _registered_and_applied(tmp_path, edge, capsys)
        folder = tmp_path / "host"
        folder.mkdir()
        (folder / "node.yaml").write_text(told["node_yaml"])
        (folder / "node.token").write_text("wrong\n")
        (folder / "node.token").chmod(0o600)
        async with _running(folder):
            await until(lambda: any(entry["code"] == "bad_token" for entry in edge.status()["turned_away"]))
        (folder / "node.token").write_text(f"{told['token']}\n")
        async with _running(folder):
            await until(lambda: edge.core.node_state("attic-node") == "connected")


@contextlib.asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[None]:
    """The node of this folder's node.yaml."""
    config = load_node(folder / "node.yaml").config
    assert config is not None
    node = build_node(config, folder=folder, release_id="test")
    await node.start()
    try:
        yield
    finally:
        await node.stop()


async def _registered_and_applied(folder: Path, edge: Any, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    path = folder / "edge.yaml"
    assert await asyncio.to_thread(register, path, "--json", "--edge-addr", edge.ready["nodes"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert len(yaml.safe_load(path.read_text())["nodes"]) == 2
    call = ["--config", str(path), "config", "refresh", "--mode", "apply", "--addr", edge.ready["admin"], "--json"]
    assert await asyncio.to_thread(main, call) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [change["path"] for change in answer["changes"]] == ["nodes[attic-node]"]
    assert answer["new_generation"] == 2
    return told


@pytest.mark.parametrize("ident", ["../x", "a b", "a\nb: c", "$(id)", "ä", "", "x" * 129, "\ud800", "a\0b"])
def test_an_odd_id_is_named_as_the_option_it_is(path: Path, capsys: pytest.CaptureFixture[str], ident: str) -> None:
    """Not as a finding in a file that was never written; nothing is left in the folder."""
    before = path.read_bytes()
    who = ("--id", ident, "--alias", "attic", "--platform", "linux")
    assert register(path, who=who) == 1
    assert capsys.readouterr().err.startswith("edge node register: --id ")
    assert (path.read_bytes(), [*path.parent.iterdir()]) == (before, [path])


@pytest.mark.parametrize("address", ["edge", "edge:99999", "::1:1", "a b:1", "edge:0", "0.0.0.0:18084", "h\n:1"])
def test_an_address_that_no_node_can_dial_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    """`--edge-addr` goes into node.yaml: what iop-node would refuse there is a usage error here."""
    before = path.read_bytes()
    with pytest.raises(SystemExit) as done:
        register(path, "--edge-addr", address)
    assert done.value.code == 2
    assert "--edge-addr" in capsys.readouterr().err
    assert path.read_bytes() == before
