"""What `edge node register` tells about the new node's host: node.yaml, service, commands, and the next steps."""

import json
import socket
from dataclasses import dataclass

from iop import __version__
from iop.config.models import EdgeConfig
from iop_release.services.registration import NodeHost

#: the engine that the deployed hosts of each system have: type, usual endpoint, what it does when a client leaves
_ENGINES = {
    "macos": ("vllm-mlx", "http://127.0.0.1:8002/v1", "cancel"),
    "linux": ("vllm", "http://127.0.0.1:8000/v1", "cancel"),
    "windows": ("lemonade", "http://127.0.0.1:8000/api/v1", "cancel_streams"),
}


@dataclass(frozen=True, slots=True)
class Engine:
    """An example of what a registered node still lacks: an engine and a provider that uses it."""

    name: str
    kind: str
    endpoint: str
    on_disconnect: str

    @classmethod
    def of(cls, node_id: str, platform: str) -> "Engine":
        """The example for a node of this platform."""
        kind, endpoint, leaving = _ENGINES[platform]
        return cls(f"{node_id.removesuffix('-node')}-{kind}", kind, endpoint, leaving)

    def lines(self) -> tuple[str, ...]:
        """The example as lines of edge.yaml, below the node's other keys."""
        leaving = "" if self.on_disconnect == "cancel" else f", on_disconnect: {self.on_disconnect}"
        instance = f'{{name: {self.name}, enabled: true, provider: {self.kind}, endpoint: "{self.endpoint}"}}'
        shape = f"type: {self.kind}, category: local_inference, adapter: {self.name}, capacity: 1{leaving}"
        return (
            "adapters:",
            "  openai_compat_instances:",
            f"    - {instance}",
            "providers:",
            f"  - {{id: {self.name}, {shape}}}",
        )


@dataclass(frozen=True, slots=True)
class HostTexts:
    """The texts for one host, and what to know about them."""

    node_yaml: str
    service: str
    commands: str
    notes: tuple[str, ...]


def bootstrap(node_id: str, platform: str, config: EdgeConfig, token_file: str, edge_addr: str | None) -> HostTexts:
    """Make the texts. `token_file` is the token's path on the Edge's host; `edge_addr` None = what the config tells."""
    address, notes = _address(config, edge_addr)
    with_tls = config.tls.nodes is not None
    if with_tls:
        notes = (*notes, "the link speaks TLS: copy the CA's certificate to ca.pem beside node.yaml")
    lines = [
        "node:",
        f"  id: {json.dumps(node_id)}",
        "  token_file: node.token",
        "edge:",
        f"  addr: {json.dumps(address)}",
        *(["  ca_file: ca.pem"] if with_tls else []),
        "state_dir: state",
    ]
    node_yaml = "\n".join(lines) + "\n"
    host = NodeHost(node_id, platform)
    wheel = f"iop_runtime-{__version__}-py3-none-any.whl"
    return HostTexts(node_yaml, host.service(), host.bootstrap(node_yaml, token_file, wheel), notes)


def _address(config: EdgeConfig, given: str | None) -> tuple[str, tuple[str, ...]]:
    where = config.listen.nodes
    if given is not None:
        return given, ()
    notes = []
    host = where.host
    if where.is_loopback:
        notes.append(f"listen.nodes is {where}: only a node on this machine reaches it")
    if where.is_unspecified:
        host = socket.gethostname()
        notes.append(f"edge.addr names this machine as {host}: use --edge-addr when the node knows it by another name")
    if where.port == 0:
        notes.append("listen.nodes has port 0: put in the port of the ready line, or use --edge-addr")
    return (f"[{host}]:{where.port}" if ":" in host else f"{host}:{where.port}"), tuple(notes)


def next_steps(node_id: str, platform: str, path: str, config: EdgeConfig) -> list[str]:
    """What to do after the node stands in the config at `path`, one step a line."""
    admin, with_tls = config.listen.admin, config.tls.admin is not None
    trust, look = (" --ca-file ca.pem", "--cacert ca.pem https") if with_tls else ("", "http")
    engine = Engine.of(node_id, platform)
    work = f"give it work in {path}: an engine and a provider (the example below the node), and in a model"
    return [
        f"{work} providers: {{{engine.name}: NAME-OF-THE-MODEL-THERE}}",
        f"edge --config {path} config check",
        f"edge --config {path} config refresh --mode apply --addr {admin}{trust}   (the node is added live)",
        "on the node's host: the commands below",
        f"curl -fsS {look}://{admin}/status   (the node is connected, its provider ready)",
    ]
