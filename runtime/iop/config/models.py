"""The three config files as frozen models: EdgeConfig, NodeConfig (node.yaml), ControlConfig (control.yaml).

Attribute names are the YAML keys of the interface page, which is also the source of every default. Durations are in
seconds, sizes in bytes, paths of this machine are absolute once loaded.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

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
    """Name of this Edge in status and answers. A change needs a restart."""


class Listen(Section):
    """Where the Edge listens; port 0 = any free one."""

    openai: ListenAddress = Address("127.0.0.1", 18083)
    """Address of the OpenAI API. A change needs a restart."""
    nodes: ListenAddress = Address("127.0.0.1", 18084)
    """Address that nodes dial. A change needs a restart."""
    admin: ListenAddress = Address("127.0.0.1", 19093)
    """Address of the admin API. A change needs a restart."""


class ApiKey(Section):
    """One client key, by its hash. `models` None = all; `max_waiting` = its places in line, None = no own bound."""

    name: Text
    """A name for people; the identity behind `max_waiting`."""
    sha256: Sha256
    """SHA-256 of the key in 64 lower-case hex digits, never the key itself."""
    models: Many[ModelId] | None = None
    """Model ids that this key may use; other models look unknown to it. None = all."""
    max_waiting: Annotated[int, Field(ge=0)] | None = None
    """Places in line for this key. None = no bound of its own."""


class Auth(Section):
    """Client keys (none = loopback clients only) and the file with the admin token."""

    api_keys: Many[ApiKey] = ()
    """Client keys. None at all = loopback clients only."""
    admin_token_file: LocalPath | None = None
    """File (0600) with the admin token; without it `serve` writes `admin.token` beside the config."""


class TlsPair(Section):
    """Paths of a certificate and its key, PEM."""

    cert: LocalPath
    """Path of the certificate (chain), PEM."""
    key: LocalPath
    """Path of its private key, PEM."""


class EdgeTls(Section):
    """TLS per listener of the Edge."""

    openai: TlsPair | None = None
    """TLS of the OpenAI API."""
    nodes: TlsPair | None = None
    """TLS of the node link."""
    admin: TlsPair | None = None
    """TLS of the admin API."""


class Queue(Section):
    """Bounds of the line: requests, bytes of their bodies, seconds."""

    max_waiting: int = Field(default=256, ge=0)
    """Requests that may wait; one more is answered with 429 `queue_full`."""
    max_bytes: Size = 256 * 2**20
    """Bytes of request bodies that are held, from their first byte read to the answer's first byte."""
    max_wait: Duration = 120.0
    """Longest wait in line; then 503 `queue_timeout`."""
    offline_grace: DurationOrZero = 30.0
    """How long a waiter stays while every candidate is offline or down; then 503 `no_provider_available`."""


class Stream(Section):
    """Times of streams, in seconds."""

    keepalive_after: Duration = 15.0
    """Wait of a streaming client after which it gets keep-alive comments."""
    write_timeout: Duration = 30.0
    """A client that reads nothing for so long is cut."""
    idle_timeout: Duration = 300.0
    """Longest silence within an answer, of engines and CLI agents alike."""


class Engine(Section):
    """Time to the engine's status line, in seconds."""

    answer_timeout: Duration = 900.0
    """Time to the engine's status line; then 504 `upstream_timeout`."""


class Http(Section):
    """Bound of a request body, as sent and decoded, in bytes; further `Host` names that are accepted."""

    max_body: Size = 64 * 2**20
    """Largest request body, as sent and as decoded."""
    allowed_hosts: Many[Text] = ()
    """Further names accepted in `Host` and `Origin`. A change needs a restart."""


class Link(Section):
    """The Edge-Node link: seconds of silence after which a link is dead; whether it may leave loopback without TLS."""

    insecure: bool = False
    """Accept a node link beyond loopback without TLS."""
    dead_after: Duration = 15.0
    """Silence after which a link is dead. A change needs a restart."""


class Probe(Section):
    """Seconds between two probes of an engine."""

    every: Duration = 10.0
    """Time between two probes of an engine."""


class DirectRoute(Section):
    """Straight to one CLI target of one node; no queue, no provider accounting."""

    node: Identifier
    """Id of the node."""
    adapter: Literal["cli"]
    """Always `cli`."""
    target: Identifier
    """Name of a CLI target of that node."""


class Model(Section):
    """A public model id with its pool (`providers`: provider id to the engine's model name) or its `direct` route.

    Exactly one of the two is set; `providers` is empty on a direct model.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "patternProperties": {"^x-": {}},
            "oneOf": [
                {"required": ["providers"], "properties": {"providers": {"minProperties": 1}}},
                {"required": ["direct"], "properties": {"direct": {"type": "object"}}},
            ],
        }
    )

    id: ModelId
    """Public model id; on the pool route also the model group key."""
    providers: dict[Identifier, Text] = Field(default_factory=dict)
    """The pool route: provider id to the model's name on that engine."""
    direct: DirectRoute | None = None
    """The direct route: straight to one CLI target of one node."""

    @model_validator(mode="after")
    def _one_route(self) -> "Model":
        if bool(self.providers) == (self.direct is not None):
            raise ValueError("a model has either providers (at least one) or direct")
        return self


class EdgeConfig(Section):
    """edge.yaml."""

    edge: EdgeIdentity
    """The name of this Edge."""
    listen: Listen = Listen()
    """Where the Edge listens."""
    auth: Auth = Auth()
    """Client keys and the admin token."""
    tls: EdgeTls = EdgeTls()
    """TLS per listener."""
    queue: Queue = Queue()
    """Bounds of the line."""
    stream: Stream = Stream()
    """Times of streams."""
    engine: Engine = Engine()
    """Times of engines."""
    http: Http = Http()
    """Bounds of requests."""
    link: Link = Link()
    """The Edge-Node link."""
    probe: Probe = Probe()
    """Probes of engines."""
    drain_timeout: DurationOrZero = 30.0
    """At shutdown, and for a removed provider: time for running work to end."""
    wedge_after: Duration = 120.0
    """Silence of a full provider after which it is suspect."""
    nodes: Many[NodeEntry]
    """The nodes, each with its adapters and providers."""
    models: Many[Model]
    """The public models and how each is served."""


class NodeIdentity(Section):
    """Which node this process is, and the file with the token that it presents."""

    id: Identifier
    """An id of the Edge's `nodes[]`."""
    token_file: LocalPath | None = None
    """File (0600) with the token that this node presents."""


class EdgeTarget(Section):
    """Where the node dials."""

    addr: ListenAddress
    """The Edge's `listen.nodes`."""
    ca_file: LocalPath | None = None
    """CA that has signed the Edge's certificate, PEM."""


class NodeConfig(Section):
    """node.yaml. `cli_commands` says where this host's programs are: it replaces a target's `command`."""

    node: NodeIdentity
    """Who this node is."""
    edge: EdgeTarget
    """The Edge that it dials."""
    status_listen: ListenAddress = Address("127.0.0.1", 0)
    """Address of the status port; loopback only."""
    state_dir: LocalPath | None = None
    """Folder for the stop token. None = `state/` beside this file."""
    cli_commands: dict[Identifier, Annotated[Many[RemotePath], Field(min_length=1)]] = Field(default_factory=dict)
    """CLI target to program and arguments on this host, in place of the target's `command`."""


class WatchedEdge(Section):
    """One Edge that the Control Plane looks at."""

    id: Identifier
    """Name of the Edge in this view's paths."""
    admin_url: Endpoint
    """Root of that Edge's admin API."""
    token_file: LocalPath | None = None
    """File (0600) with a token for it."""
    ca_file: LocalPath | None = None
    """CA that has signed its certificate, PEM."""


class ControlConfig(Section):
    """control.yaml."""

    listen: ListenAddress = Address("127.0.0.1", 18001)
    """Address of the status API."""
    edges: Many[WatchedEdge]
    """The Edges that are shown."""
    tls: TlsPair | None = None
    """TLS of the status API."""
    auth: Auth = Auth()
    """Who may read beyond loopback."""
