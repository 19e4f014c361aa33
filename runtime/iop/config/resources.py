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
    command: Annotated[Many[Text], Field(min_length=1)]
    env: dict[str, str] = Field(default_factory=dict)
    cwd: RemotePath | None = None
    timeout: Duration | None = None


class CliAdapter(Section):
    """The CLI adapter of a node. iop sets no limit on it: its `max_concurrency` is 0, which means unlimited."""

    enabled: bool
    targets: dict[Identifier, CliTarget] = Field(default_factory=dict)


class EngineInstance(Section):
    """One HTTP engine. `capacity` is what the engine can bear; None = the sum over its providers.

    `api_key_file` is a path on the node's host; its contents never cross the link.
    """

    name: Identifier
    enabled: bool
    provider: Text
    endpoint: Endpoint
    capacity: Annotated[int, Field(ge=1)] | None = None
    api_key_file: RemotePath | None = None


class Adapters(Section):
    """The ways to run work inside a node."""

    cli: CliAdapter = CliAdapter(enabled=False)
    openai_compat_instances: Many[EngineInstance] = ()


class Provider(Section):
    """A resource under a node, the only owner of concurrency. `adapter` names an enabled instance of the same node."""

    id: Identifier
    type: ProviderType
    category: Literal["local_inference"]
    adapter: Identifier
    capacity: int = Field(ge=1, description=CAPACITY_DOC)
    on_disconnect: OnDisconnect = "cancel"


class NodeRuntime(Section):
    """Legacy/compat metadata of a node; nothing in it has an effect."""

    concurrency: int | None = Field(default=None, description=CONCURRENCY_DOC, json_schema_extra={"deprecated": True})


class NodeEntry(Section):
    """One `nodes[]` entry: the identity of a connection and the name of a resource registry, never a gate.

    `alias` is for people only. The node must present the token in `token_file`, or one whose hash is `token_sha256`.
    """

    id: Identifier
    alias: Text | None = None
    token_file: LocalPath | None = None
    token_sha256: Sha256 | None = None
    adapters: Adapters = Adapters()
    providers: Many[Provider] = ()
    runtime: NodeRuntime = NodeRuntime()

    def instance_capacity(self, name: str) -> int:
        """What the engine instance `name` can bear: its own `capacity`, else the sum over its providers."""
        for instance in self.adapters.openai_compat_instances:
            if instance.name == name and instance.capacity is not None:
                return instance.capacity
        return sum(provider.capacity for provider in self.providers if provider.adapter == name)
