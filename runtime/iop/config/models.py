"""The three config files as frozen models: EdgeConfig, NodeConfig (node.yaml), ControlConfig (control.yaml).

Attribute names are the YAML keys of the interface page, which is also the source of every default. Durations are in
seconds, sizes in bytes, paths of this machine are absolute once loaded.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from iop.config.resources import NodeEntry, Section
from iop.config.scalars import (
    Address,
    Duration,
    DurationOrZero,
    Endpoint,
    Identifier,
    ListenAddress,
    LocalPath,
    Many,
    ModelId,
    RemotePath,
    Sha256,
    Size,
    Text,
)


class EdgeIdentity(Section):
    """Who this Edge is."""

    id: Identifier


class Listen(Section):
    """Where the Edge listens; port 0 = any free one."""

    openai: ListenAddress = Address("127.0.0.1", 18083)
    nodes: ListenAddress = Address("127.0.0.1", 18084)
    admin: ListenAddress = Address("127.0.0.1", 19093)


class ApiKey(Section):
    """One client key, by its hash. `models` None = all; `max_waiting` = its places in line, None = no own bound."""

    name: Text
    sha256: Sha256
    models: Many[ModelId] | None = None
    max_waiting: Annotated[int, Field(ge=0)] | None = None


class Auth(Section):
    """Client keys (none = loopback clients only) and the file with the admin token."""

    api_keys: Many[ApiKey] = ()
    admin_token_file: LocalPath | None = None


class TlsPair(Section):
    """Paths of a certificate and its key, PEM."""

    cert: LocalPath
    key: LocalPath


class EdgeTls(Section):
    """TLS per listener of the Edge."""

    openai: TlsPair | None = None
    nodes: TlsPair | None = None
    admin: TlsPair | None = None


class Queue(Section):
    """Bounds of the line: requests, bytes of their bodies, seconds."""

    max_waiting: int = Field(default=256, ge=0)
    max_bytes: Size = 256 * 2**20
    max_wait: Duration = 120.0
    offline_grace: DurationOrZero = 30.0


class Stream(Section):
    """Times of streams, in seconds."""

    keepalive_after: Duration = 15.0
    write_timeout: Duration = 30.0
    idle_timeout: Duration = 300.0


class Engine(Section):
    """Time to the engine's status line, in seconds."""

    answer_timeout: Duration = 900.0


class Http(Section):
    """Bound of a request body, as sent and decoded, in bytes; further `Host` names that are accepted."""

    max_body: Size = 64 * 2**20
    allowed_hosts: Many[Text] = ()


class Link(Section):
    """The Edge-Node link: seconds of silence after which a link is dead; whether it may leave loopback without TLS."""

    insecure: bool = False
    dead_after: Duration = 15.0


class Probe(Section):
    """Seconds between two probes of an engine."""

    every: Duration = 10.0


class DirectRoute(Section):
    """Straight to one CLI target of one node; no queue, no provider accounting."""

    node: Identifier
    adapter: Literal["cli"]
    target: Identifier


class Model(Section):
    """A public model id with its pool (`providers`: provider id to the engine's model name) or its `direct` route.

    Exactly one of the two is set; `providers` is empty on a direct model.
    """

    id: ModelId
    providers: dict[Identifier, Text] = Field(default_factory=dict)
    direct: DirectRoute | None = None

    @model_validator(mode="after")
    def _one_route(self) -> "Model":
        if bool(self.providers) == (self.direct is not None):
            raise ValueError("a model has either providers (at least one) or direct")
        return self


class EdgeConfig(Section):
    """edge.yaml."""

    edge: EdgeIdentity
    listen: Listen = Listen()
    auth: Auth = Auth()
    tls: EdgeTls = EdgeTls()
    queue: Queue = Queue()
    stream: Stream = Stream()
    engine: Engine = Engine()
    http: Http = Http()
    link: Link = Link()
    probe: Probe = Probe()
    drain_timeout: DurationOrZero = 30.0
    wedge_after: Duration = 120.0
    nodes: Many[NodeEntry]
    models: Many[Model]


class NodeIdentity(Section):
    """Which node this process is, and the file with the token that it presents."""

    id: Identifier
    token_file: LocalPath | None = None


class EdgeTarget(Section):
    """Where the node dials."""

    addr: ListenAddress
    ca_file: LocalPath | None = None


class NodeConfig(Section):
    """node.yaml. `cli_commands` says where this host's programs are: it replaces a target's `command`."""

    node: NodeIdentity
    edge: EdgeTarget
    status_listen: ListenAddress = Address("127.0.0.1", 0)
    state_dir: LocalPath | None = None
    cli_commands: dict[Identifier, Annotated[Many[RemotePath], Field(min_length=1)]] = Field(default_factory=dict)


class WatchedEdge(Section):
    """One Edge that the Control Plane looks at."""

    id: Identifier
    admin_url: Endpoint
    token_file: LocalPath | None = None
    ca_file: LocalPath | None = None


class ControlConfig(Section):
    """control.yaml."""

    listen: ListenAddress = Address("127.0.0.1", 18001)
    edges: Many[WatchedEdge]
    tls: TlsPair | None = None
    auth: Auth = Auth()
