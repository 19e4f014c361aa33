"""The texts for a new node's host."""

import pytest
import yaml

from iop.commands.node_bootstrap import Engine, bootstrap, next_steps
from iop.config.load import read_edge
from iop.config.models import EdgeConfig, EdgeTls, NodeConfig, TlsPair
from iop.config.source import parse
from iop.config.structure import read_model
from tests.fakes.config_files import changed

LISTEN = "listen: {openai: 127.0.0.1:0, nodes: 127.0.0.1:0, admin: 127.0.0.1:0}"


def config(nodes: str) -> EdgeConfig:
    """An edge.yaml that listens for nodes at this address."""
    text = changed((LISTEN, f"listen: {{nodes: '{nodes}'}}\nlink: {{insecure: true}}"))
    loaded = read_edge(text, source="/cfg/edge.yaml").config
    assert loaded is not None
    return loaded


@pytest.mark.parametrize(
    ("listen", "given", "address", "note"),
    [
        ("127.0.0.1:18084", None, "127.0.0.1:18084", "only a node on this machine"),
        ("0.0.0.0:18084", None, "tower:18084", "names this machine as tower"),
        ("[::]:18084", None, "tower:18084", "names this machine as tower"),
        ("10.0.0.1:18084", None, "10.0.0.1:18084", None),
        ("[fd00::1]:18084", None, "[fd00::1]:18084", None),
        ("127.0.0.1:0", None, "127.0.0.1:0", "port 0"),
        ("0.0.0.0:18084", "edge.lan:18084", "edge.lan:18084", None),
    ],
)
def test_where_the_node_dials(
    monkeypatch: pytest.MonkeyPatch, listen: str, given: str | None, address: str, note: str | None
) -> None:
    """listen.nodes as another host can use it; what cannot be known is said."""
    monkeypatch.setattr("socket.gethostname", lambda: "tower")
    told = bootstrap("n2", "linux", config(listen), "/cfg/n2.token", given)
    assert yaml.safe_load(told.node_yaml)["edge"]["addr"] == address
    assert note is None or any(note in one for one in told.notes)
    assert (note is None) == (told.notes == ())
    assert told.node_yaml in told.commands


def test_the_node_yaml_is_one() -> None:
    """The node's own reader accepts it."""
    told = bootstrap("n2", "windows", config("10.0.0.1:18084"), "/cfg/n2.token", None)
    document, findings = parse(told.node_yaml, "node.yaml")
    assert document is not None
    made, more = read_model(document, NodeConfig)
    assert (findings, more) == ((), ())
    assert made is not None
    assert (made.node.id, made.node.token_file, made.state_dir) == ("n2", "node.token", "state")


@pytest.mark.parametrize("platform", ["macos", "linux", "windows"])
def test_the_example_passes_config_check(platform: str) -> None:
    """Its comment signs taken off, and named by a model, it is a provider that works."""
    engine = Engine.of("attic-node", platform)
    lines = "\n".join(f"    {line}" for line in engine.lines())
    text = changed(
        ("models:\n", f"  - id: attic-node\n{lines}\nmodels:\n"), ("{p1: engine-model}", f"{{p1: m, {engine.name}: m}}")
    )
    assert read_edge(text, source="/cfg/edge.yaml").findings == ()


def test_the_next_steps_are_commands_of_ours() -> None:
    """Check, apply, host, look."""
    steps = next_steps("attic-node", "macos", "/cfg/edge.yaml", config("10.0.0.1:18084"))
    assert "attic-vllm-mlx" in steps[0]
    assert "edge --config /cfg/edge.yaml config refresh --mode apply --addr 127.0.0.1:19093 " in steps[2]
    assert "curl -fsS http://127.0.0.1:19093/status" in steps[4]


def test_with_tls_the_ca_is_part_of_it() -> None:
    """node.yaml names the CA's file, a note says to copy it, and the steps trust it."""
    pair = TlsPair(cert="/c.pem", key="/k.pem")
    with_tls = config("10.0.0.1:18084").model_copy(update={"tls": EdgeTls(nodes=pair, admin=pair)})
    told = bootstrap("n2", "linux", with_tls, "/cfg/n2.token", None)
    assert yaml.safe_load(told.node_yaml)["edge"]["ca_file"] == "ca.pem"
    assert any("copy the CA" in note for note in told.notes)
    steps = next_steps("n2", "linux", "/cfg/edge.yaml", with_tls)
    assert "--addr 127.0.0.1:19093 --ca-file ca.pem" in steps[2]
    assert "curl -fsS --cacert ca.pem https://127.0.0.1:19093/status" in steps[4]
