"""Building a node from node.yaml."""

from pathlib import Path

import pytest

from iop.config.load import load_node
from iop.config.models import NodeConfig
from iop.link.messages import CliTarget, EngineInstance
from iop.transport.listening import PortBusy
from iop.wiring.node import HostAdapters, build_node, read_secret
from tests.fakes.authority import Authority


def target(command: tuple[str, ...], cwd: str | None = None) -> CliTarget:
    """Make a text target named `echo`."""
    return CliTarget(name="echo", kind="text", command=command, cwd=cwd)


def engine(api_key_file: str | None) -> EngineInstance:
    """Make an engine instance."""
    return EngineInstance(
        name="e1", provider="other", endpoint="http://127.0.0.1:1/v1", capacity=3, api_key_file=api_key_file
    )


def config(folder: Path, text: str = "") -> NodeConfig:
    """Write a node.yaml and load it."""
    path = folder / "node.yaml"
    path.write_text("node: {id: n1}\nedge: {addr: '127.0.0.1:1'}\n" + text, encoding="utf-8")
    loaded = load_node(path)
    assert loaded.config is not None, loaded.findings
    return loaded.config


@pytest.mark.parametrize(
    ("command", "program"),
    [(("agent", "-x"), "agent"), (("./bin/agent",), "{folder}/bin/agent"), (("/abs/agent",), "/abs/agent")],
)
def test_programs_are_found_from_the_folder(tmp_path: Path, command: tuple[str, ...], program: str) -> None:
    """A relative path is taken from node.yaml's folder, a bare name is left to PATH, arguments stay."""
    resolved = HostAdapters(tmp_path, {}).resolve(target(command, cwd="work"))
    assert resolved.command == (program.format(folder=tmp_path), *command[1:])
    assert resolved.cwd == str(tmp_path / "work")


def test_cli_commands_replace_the_command(tmp_path: Path) -> None:
    """This host's own command wins over the Edge's, and nothing else of the target changes."""
    resolved = HostAdapters(tmp_path, {"echo": ("/opt/agent", "--now")}).resolve(target(("agent",)))
    assert resolved == target(("/opt/agent", "--now"), cwd=str(tmp_path))


async def test_key_files_are_read_on_the_node(tmp_path: Path) -> None:
    """A key file is found from node.yaml's folder; a missing or an empty one is named, never its contents."""
    adapters = HostAdapters(tmp_path, {})
    (tmp_path / "key").write_text("s3cret\n", encoding="utf-8")
    adapter = adapters.engine(engine("key"))
    assert (adapter.name, adapter.max_concurrency) == ("e1", 3)
    await adapter.close()
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="empty is empty"):
        adapters.engine(engine("empty"))
    with pytest.raises(FileNotFoundError, match="missing"):
        adapters.engine(engine("missing"))


def test_the_cli_adapter_is_unlimited(tmp_path: Path) -> None:
    """The CLI adapter is named `cli` and tells 0 = unlimited."""
    adapter = HostAdapters(tmp_path, {}).cli((target(("agent",)),))
    assert (adapter.name, adapter.type, adapter.max_concurrency) == ("cli", "cli", 0)


def test_secrets_never_stand_in_an_error(tmp_path: Path) -> None:
    """Surrounding blanks are taken off; a file that is no text is told by its name alone."""
    path = tmp_path / "token"
    path.write_bytes(b" t0ken \r\n")
    assert read_secret(path) == "t0ken"
    path.write_bytes(b"\xff\xfe-s3cr3t")
    with pytest.raises(OSError, match="token is not a text file") as caught:
        read_secret(path)
    assert "s3cr3t" not in str(caught.value)


async def test_hello_and_stop_token(tmp_path: Path) -> None:
    """The built node says who it is, reads its token, and puts its stop token into `state/` beside node.yaml."""
    (tmp_path / "token").write_text("t0ken", encoding="utf-8")
    (tmp_path / "token").chmod(0o600)
    loaded = config(tmp_path)
    loaded = loaded.model_copy(update={"node": loaded.node.model_copy(update={"token_file": str(tmp_path / "token")})})
    service = build_node(loaded, folder=tmp_path, release_id="v1")
    ready = await service.start()
    hello = service.hello()
    assert ready.startswith("ready node=n1 status=127.0.0.1:")
    assert (hello.node_id, hello.token, hello.release_id) == ("n1", "t0ken", "v1")
    assert build_node(loaded, folder=tmp_path, release_id="v1").hello().instance_id != hello.instance_id
    assert (tmp_path / "state" / "n1.stop-token").exists()
    await service.stop()


async def test_state_folders_that_cannot_be_written(tmp_path: Path) -> None:
    """The default folder may be missing its rights (no POST /stop then); one that is named must work."""
    (tmp_path / "state").write_text("a file", encoding="utf-8")
    default = build_node(config(tmp_path), folder=tmp_path, release_id="v1")
    await default.start()
    await default.stop()
    named = config(tmp_path).model_copy(update={"state_dir": str(tmp_path / "state")})
    service = build_node(named, folder=tmp_path, release_id="v1")
    with pytest.raises(OSError, match="state"):
        await service.start()
    await service.stop()


async def test_a_node_that_cannot_start_leaves_the_stop_token_alone(tmp_path: Path) -> None:
    """A second node on the same status port fails to start and does not replace the first one's token."""
    first = build_node(config(tmp_path), folder=tmp_path, release_id="v1")
    port = int((await first.start()).rpartition(":")[2])
    token = (tmp_path / "state" / "n1.stop-token").read_text(encoding="ascii")
    second = build_node(config(tmp_path, f"status_listen: 127.0.0.1:{port}\n"), folder=tmp_path, release_id="v1")
    with pytest.raises(PortBusy):
        await second.start()
    await second.stop()
    assert (tmp_path / "state" / "n1.stop-token").read_text(encoding="ascii") == token
    await first.stop()


async def test_a_pinned_ca_is_asked_for_at_each_dial(tmp_path: Path) -> None:
    """Without `edge.ca_file` the dialer has no TLS; with it the file is read when the Edge is dialled."""
    plain = build_node(config(tmp_path), folder=tmp_path, release_id="v1")
    assert plain._dialer._tls is None
    authority = Authority(tmp_path)
    loaded = config(tmp_path)
    edge = loaded.edge.model_copy(update={"ca_file": str(authority.ca_file)})
    pinned = build_node(loaded.model_copy(update={"edge": edge}), folder=tmp_path, release_id="v1")
    assert len(pinned._dialer._tls().get_ca_certs()) == 1
    authority.ca_file.unlink()
    with pytest.raises(OSError, match="cannot be read"):
        pinned._dialer._tls()
