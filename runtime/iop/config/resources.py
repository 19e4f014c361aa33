"""The `nodes[]` part of edge.yaml: what a node is declared to have. Names are the YAML keys; see the interface page."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from iop.config.scalars import Duration, Endpoint, Identifier, LocalPath, Many, RemotePath, Sha256, Text

ProviderType = Literal["vllm-mlx", "vllm", "lemonade", "llama.cpp", "other"]
OnDisconnect = Literal["cancel", "cancel_streams", "finish"]

CONCURRENCY_DOC = (
    "Legacy/compat metadata: accepted and carried to the node, never a gate and without effect on admission. "
    "The admission source is nodes[].providers[].capacity."
)
CAPACITY_DOC = (
    "The admission source: how many requests this provider runs at once, per provider id, at the Edge and on the "
    "node. An integer >= 1. nodes[].runtime.concurrency has no part in it."
)


class Section(BaseModel):
    """A mapping of a config file: unknown keys are refused, keys that start with `x-` are skipped, types are exact."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,  # what stands below a field is its description in the JSON Schema
        json_schema_extra={"patternProperties": {"^x-": {}}},
    )

    @model_validator(mode="before")
    @classmethod
    def _skip_escape_hatch(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if not str(key).startswith("x-")}


class CliTarget(Section):
    """One CLI agent: `command` (argv, no shell) and `cwd` are the node's, resolved on its host.

    `timeout` is in seconds, None = bounded by `stream.idle_timeout` only.
    """

    kind: Literal["text", "codex"]
    """`text` (prompt on stdin, answer on stdout) or `codex`."""
    command: Annotated[Many[Text], Field(min_length=1)]
    """Program and arguments, started without a shell on the node's host."""
    env: dict[str, str] = Field(default_factory=dict)
    """Further environment variables; no secrets."""
    cwd: RemotePath | None = None
    """Working folder on the node. None = the folder of node.yaml."""
    timeout: Duration | None = None
    """Longest run. None = bounded by `stream.idle_timeout` only."""


class CliAdapter(Section):
    """The CLI adapter of a node. iop sets no limit on it: its `max_concurrency` is 0, which means unlimited."""

    enabled: bool
    """The CLI agents of this node are in use."""
    targets: dict[Identifier, CliTarget] = Field(default_factory=dict)
    """CLI agents by name."""


class EngineInstance(Section):
    """One HTTP engine. `capacity` is what the engine can bear; None = the sum over its providers.

    `api_key_file` is a path on the node's host; its contents never cross the link.
    """

    name: Identifier
    """Name that providers refer to; unique in its node."""
    enabled: bool
    """A provider may use enabled instances only."""
    provider: Text
    """Label of the engine."""
    endpoint: Endpoint
    """Base URL as the node sees it, ending in `/v1` for most engines."""
    capacity: Annotated[int, Field(ge=1)] | None = None
    """What the engine can bear. None = the sum over its providers, which it must cover."""
    api_key_file: RemotePath | None = None
    """File on the node's host with the engine's key."""


class Adapters(Section):
    """The ways to run work inside a node."""

    cli: CliAdapter = CliAdapter(enabled=False)
    """CLI agents."""
    openai_compat_instances: Many[EngineInstance] = ()
    """HTTP engines."""


class Provider(Section):
    """A resource under a node, the only owner of concurrency. `adapter` names an enabled instance of the same node."""

    id: Identifier
    """Unique in the file."""
    type: ProviderType
    """A label of the engine."""
    category: Literal["local_inference"]
    """Always `local_inference`."""
    adapter: Identifier
    """Name of an enabled engine instance of the same node."""
    capacity: int = Field(ge=1, description=CAPACITY_DOC)
    on_disconnect: OnDisconnect = "cancel"
    """What becomes of running work when its client leaves."""


class NodeRuntime(Section):
    """Legacy/compat metadata of a node; nothing in it has an effect."""

    concurrency: int | None = Field(default=None, description=CONCURRENCY_DOC, json_schema_extra={"deprecated": True})


class NodeEntry(Section):
    """One `nodes[]` entry: the identity of a connection and the name of a resource registry, never a gate.

    `alias` is for people only. The node must present the token in `token_file`, or one whose hash is `token_sha256`.
    """

    id: Identifier
    """Identity of the node's connection and name of its resource registry; never a gate."""
    alias: Text | None = None
    """For people only; routing uses ids."""
    token_file: LocalPath | None = None
    """File (0600) with the token that the node must present."""
    token_sha256: Sha256 | None = None
    """SHA-256 of that token, instead of a file. Without either: loopback only."""
    adapters: Adapters = Adapters()
    """The ways to run work on this node."""
    providers: Many[Provider] = ()
    """Resources with a capacity."""
    runtime: NodeRuntime = NodeRuntime()
    """Legacy/compat metadata, without effect."""

    def instance_capacity(self, name: str) -> int:
        """What the engine instance `name` can bear: its own `capacity`, else the sum over its providers."""
        for instance in self.adapters.openai_compat_instances:
            if instance.name == name and instance.capacity is not None:
                return instance.capacity
        return sum(provider.capacity for provider in self.providers if provider.adapter == name)
