"""The control messages of the Edge-Node link, as msgspec structs (one tagged union, JSON on the wire).

Bodies and streamed bytes never travel in these: they are binary frames (`iop.link.frames`). Unknown fields are
ignored, so that protocol N and N-1 interoperate. The page docs/reference/edge-node-runtime-wire.md lists each
message, field, flag and code; a test compares it with this module.
"""

from typing import Literal

import msgspec

PROTOCOL = 1
#: the oldest protocol that this release still speaks; from protocol 2 on it is PROTOCOL - 1
OLDEST_PROTOCOL = 1
TURNED_AWAY_CODES = ("bad_token", "unknown_node", "protocol_mismatch", "duplicate_node")
#: `End.failure` on the wire; unreachable, reset, busy and stopping mean that no HTTP status came
FAILURES = ("unreachable", "reset", "busy", "stopping", "broken", "timeout", "agent_failed", "error_event", "status")
#: `End.failure` that the Edge makes itself when the link is gone; never on the wire
LINK_LOST = "link_lost"


class CliTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One CLI agent of the node. `command` and `cwd` are resolved on the node; `timeout` is in seconds or None."""

    name: str
    kind: Literal["text", "codex"]
    command: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    timeout: float | None = None


class EngineInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One enabled `openai_compat_instances[]` entry; `api_key_file` is a path on the node, never its contents."""

    name: str
    provider: str
    endpoint: str
    capacity: int
    api_key_file: str | None = None


class ProviderRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """One provider of the node: `capacity` slots (>= 1) on the adapter instance `adapter`."""

    id: str
    type: str
    category: str
    adapter: str
    capacity: int
    on_disconnect: Literal["cancel", "cancel_streams", "finish"] = "cancel"


class NodeRuntimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the Edge tells a node to run.

    `concurrency` is legacy/compat metadata (`nodes[].runtime.concurrency`): accepted, carried, and never a gate.
    The admission source is `providers[].capacity`. Times are in seconds.
    """

    node_id: str
    alias: str | None = None
    concurrency: int | None = None
    cli_enabled: bool = False
    cli_targets: tuple[CliTarget, ...] = ()
    engines: tuple[EngineInstance, ...] = ()
    providers: tuple[ProviderRuntime, ...] = ()
    probe_every: float = 10.0
    answer_timeout: float = 900.0
    idle_timeout: float = 300.0
    drain_timeout: float = 30.0


class RunningWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work a node still runs when it says hello; the Edge counts it as held (adopted) until its `end` comes."""

    run: int
    request_id: str
    adapter: str
    provider_id: str | None = None


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A CLI agent as the node sees it. `reason` says why it is not ready and what to do, None when it is."""

    name: str
    kind: str
    ready: bool
    reason: str | None = None


class AdapterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter of the node. `max_concurrency` 0 means unlimited (always so for `cli`).

    `targets` are the agents of `cli`; empty from a node of an earlier release.
    """

    name: str
    type: Literal["cli", "openai_compat"]
    max_concurrency: int
    targets: tuple[TargetInfo, ...] = ()


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """Node to Edge, first frame. `instance_id` is new for each node process.

    `oldest_protocol`: the node also speaks each protocol from that to `protocol`; None = that one only.
    """

    protocol: int
    node_id: str
    instance_id: str
    token: str | None = None
    version: str = ""
    release_id: str = ""
    platform: str = ""
    running: tuple[RunningWork, ...] = ()
    oldest_protocol: int | None = None

    def common_protocol(self, oldest: int = OLDEST_PROTOCOL, newest: int = PROTOCOL) -> int | None:
        """Return the newest protocol that both this node and an end that speaks `oldest` to `newest` know, or None."""
        theirs = self.protocol if self.oldest_protocol is None else self.oldest_protocol
        common = min(self.protocol, newest)
        return common if common >= max(theirs, oldest) else None


class TurnedAway(msgspec.Struct, frozen=True, kw_only=True, tag="turned_away"):
    """Edge to node instead of `config`: the hello was refused; the connection closes after it."""

    code: str
    message: str


class Config(msgspec.Struct, frozen=True, kw_only=True, tag="config"):
    """Edge to node: after hello, and again after each applied refresh that changes the node's runtime config."""

    epoch: int
    generation: int
    dead_after: float
    runtime: NodeRuntimeConfig


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """Node to Edge: the config of that generation is in force (the acknowledgement of each `config`).

    Sent again, with the same generation, when what it tells of the adapters has changed, and at the beginning of a
    stop: `stopping` then asks for no new runs on this link. An Edge that does not know the field sees the providers
    down, which is told right after.
    """

    generation: int
    adapters: tuple[AdapterInfo, ...] = ()
    providers: tuple[str, ...] = ()
    stopping: bool = False


class ProviderHealth(msgspec.Struct, frozen=True, kw_only=True, tag="provider_health"):
    """Node to Edge: result of a probe, sent at hello for each provider and on each probe.

    `silent`: the engine has work in flight and did not answer; that is no verdict, and `up` repeats the last one.
    """

    provider_id: str
    up: bool
    reason: str | None = None
    silent: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Edge to node: do this work. Followed by body frames of the same `run`, the last one with the END flag.

    `provider_pool` false is the direct route (no gate, no provider accounting). `run` is unique on this link.
    `timeout` in seconds bounds the time to the engine's status line.
    """

    run: int
    epoch: int
    request_id: str
    adapter: str
    operation: Literal["chat.completions", "responses"]
    stream: bool
    target: str | None = None
    provider_id: str | None = None
    model_group_key: str | None = None
    provider_pool: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """Edge to node: `client` follows on_disconnect, `limit` always stops the work. Answered by `end`."""

    run: int
    why: Literal["client", "limit"]


class Head(msgspec.Struct, frozen=True, kw_only=True, tag="head"):
    """Node to Edge: the engine's status line and allowed headers."""

    run: int
    status: int
    headers: tuple[tuple[str, str], ...] = ()


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Node to Edge, exactly one per run, once the work has really ended.

    `failure` (when outcome is failed) is one of FAILURES; unreachable, reset, busy and stopping mean that no HTTP
    status came: such a request may go back to the line.
    """

    run: int
    outcome: Literal["completed", "failed", "cancelled"]
    failure: str | None = None
    detail: str | None = None


class Credit(msgspec.Struct, frozen=True, kw_only=True, tag="credit"):
    """Either way: the receiver of a run's body drained `bytes` more; the sender may send as many again."""

    run: int
    bytes: int


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping"):
    """Either way; answered by `pong` with the same `n`."""

    n: int


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong"):
    """Answer to `ping`."""

    n: int


class GoingAway(msgspec.Struct, frozen=True, kw_only=True, tag="going_away"):
    """Edge to node, when its drain begins: this Edge is stopping. Runs go on, and waiters may still become new ones.

    The Edge closes the link when its drain is over; the node stays until then, and redials.
    """


class Bye(msgspec.Struct, frozen=True, kw_only=True, tag="bye"):
    """Node to Edge: this node is stopping and has no runs left (or cut them)."""


Message = (
    Hello
    | TurnedAway
    | Config
    | Ready
    | ProviderHealth
    | Run
    | Cancel
    | Head
    | End
    | Credit
    | Ping
    | Pong
    | GoingAway
    | Bye
)
