"""The config in force and its replacement while running: plan, or swap all or nothing, with a generation number."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Literal

from iop.config.findings import Finding, has_errors
from iop.config.load import Loaded, UnreadableFile, load_edge, read_edge
from iop.config.models import EdgeConfig
from iop.config.plan import Change, Plan, plan
from iop.edge.status import ConfigFacts, Retired

#: seconds a connected node gets to acknowledge when the asker does not say; the command's own default
ACK_TIMEOUT_S = 15.0
#: removed providers whose description is kept for status; a draining one is gone after `drain_timeout`
MAX_RETIRED = 256

_RESIZED_PROVIDER = re.compile(r"\.providers\[(.+)\]\.capacity$")

Mode = Literal["dry-run", "apply"]


@dataclass(frozen=True, slots=True)
class RefreshAsk:
    """What `POST /config/refresh` asks: the candidate's text, the path it came from, and the expected generation.

    `ack_timeout_s` is how long (seconds) connected nodes get to acknowledge.
    """

    mode: Mode
    text: str
    source: str
    expect_generation: int | None = None
    ack_timeout_s: float = ACK_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class RefreshReply:
    """The HTTP status (200 planned or applied, 409 generation moved on, 422 findings) and the interface's JSON."""

    status: int
    body: Mapping[str, Any]


async def _at_once() -> None:
    """Wait for nothing."""


@dataclass(frozen=True, slots=True)
class RefreshPorts:
    """What a refresh does to the rest of the Edge.

    `settled` waits for a moment at which every granted request is on its way to its node: one that came after the new,
    smaller capacity would be one too many there. `take_over` hands the candidate to admission, before the swap.
    `push_config` sends the config now in force to those of the named nodes that are connected. `acknowledged` waits
    until a node runs that generation or a later one; False when it did not within the seconds given. `in_flight` tells
    the slots held per provider id, for a plan's `over_by`.
    """

    take_over: Callable[[EdgeConfig], None]
    connected: Callable[[str], bool]
    push_config: Callable[[Sequence[str]], None]
    acknowledged: Callable[[str, int, float], Awaitable[bool]]
    in_flight: Callable[[], Mapping[str, int]] = dict
    settled: Callable[[], Awaitable[None]] = _at_once


class Refresher:
    """Owner of the running config. `loaded` is what the Edge started with (generation 1).

    `on_applied` is told each text that was applied, one with the meaning of the running config included.
    """

    def __init__(self, loaded: Loaded[EdgeConfig], ports: RefreshPorts, now_wall: Callable[[], float]) -> None:
        if loaded.config is None:
            raise ValueError("an Edge cannot start with a config that has errors")
        self._config = loaded.config
        self._ports = ports
        self._now = now_wall
        self._facts = ConfigFacts(1, loaded.sha256, loaded.source, now_wall())
        self._retired: dict[str, Retired] = {}
        self.on_applied: Callable[[ConfigFacts], None] = lambda _facts: None

    @property
    def config(self) -> EdgeConfig:
        """The config in force."""
        return self._config

    @property
    def generation(self) -> int:
        """1 at start, one more with each applied change."""
        return self._facts.generation

    @property
    def facts(self) -> ConfigFacts:
        """What status tells about the config."""
        return self._facts

    @property
    def retired(self) -> Mapping[str, Retired]:
        """What removed providers were, newest last."""
        return self._retired

    async def refresh(self, ask: RefreshAsk) -> RefreshReply:
        """Check the candidate, then plan it or apply it.

        A relative `source` is taken from the folder of the config in force. A refused candidate changes nothing but
        `last_error`, and that only when it was to be applied.
        """
        ask = replace(ask, source=str(PurePath(self._facts.source).parent / ask.source))
        # in a thread: reading a large file takes long, and status and requests must go on meanwhile
        return await self._judge(ask, await asyncio.to_thread(read_edge, ask.text, source=ask.source))

    async def reload(self) -> RefreshReply:
        """Read the last applied `source` again and apply it; a file that cannot be read is refused like a bad one."""
        source = self._facts.source
        ask = RefreshAsk("apply", "", source)
        try:
            loaded = await asyncio.to_thread(load_edge, Path(source))
        except UnreadableFile as error:
            return self._refuse(ask, [_fault(source, "unreadable_file", str(error), "put the file back")])
        return await self._judge(ask, loaded)

    async def _judge(self, ask: RefreshAsk, loaded: Loaded[EdgeConfig]) -> RefreshReply:
        if loaded.config is None:
            return self._refuse(ask, loaded.findings)
        if ask.mode == "apply":
            await self._ports.settled()  # no await from here to the swap
        if ask.expect_generation is not None and ask.expect_generation != self.generation:
            findings = (*loaded.findings, _moved_on(ask, self.generation))  # the candidate itself is not at fault
            return RefreshReply(409, self._body(ask, self.generation, Plan((), ()), findings))
        planned = plan(self._config, loaded.config)
        if ask.mode == "dry-run":
            return self._reply(ask, planned, loaded.findings)
        if planned.restart_required:
            fields = ", ".join(entry.path for entry in planned.restart_required)
            self._facts = replace(self._facts, last_error=f"{ask.source}: restart required for {fields}")
            return self._reply(ask, planned, loaded.findings)
        return await self._apply(ask, planned, loaded, loaded.config)

    async def _apply(
        self, ask: RefreshAsk, planned: Plan, loaded: Loaded[EdgeConfig], config: EdgeConfig
    ) -> RefreshReply:
        before = self.generation
        generation = before + 1 if planned.changes else before
        if planned.changes:
            # no await from here to the swap: nobody can see one half of it
            self._ports.take_over(config)
            self._retire(config)
            self._config = config
        self._facts = ConfigFacts(generation, loaded.sha256, loaded.source, self._now())
        self.on_applied(self._facts)
        if not planned.changes:
            return self._reply(ask, planned, loaded.findings)
        nodes = await self._hand_out([node.id for node in config.nodes], generation, ask.ack_timeout_s)
        body = self._body(ask, before, planned, loaded.findings)
        return RefreshReply(200, {**body, "new_generation": generation, "nodes": nodes})

    async def _hand_out(self, node_ids: Sequence[str], generation: int, within: float) -> list[dict[str, Any]]:
        sent = [node_id for node_id in node_ids if self._ports.connected(node_id)]
        self._ports.push_config(sent)
        answers = await asyncio.gather(*(self._ports.acknowledged(node_id, generation, within) for node_id in sent))
        return [{"id": node_id, "acknowledged": answer} for node_id, answer in zip(sent, answers, strict=True)]

    def _retire(self, config: EdgeConfig) -> None:
        kept = {provider.id for node in config.nodes for provider in node.providers}
        for node in self._config.nodes:
            for provider in node.providers:
                if provider.id not in kept:
                    self._retired[provider.id] = Retired(provider.type, provider.category, provider.adapter)
        for provider_id in tuple(self._retired):
            if provider_id in kept or len(self._retired) > MAX_RETIRED:
                del self._retired[provider_id]

    def _refuse(self, ask: RefreshAsk, findings: Sequence[Finding]) -> RefreshReply:
        if ask.mode == "apply":
            errors = [str(finding) for finding in findings if has_errors([finding])]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            self._facts = replace(self._facts, last_error=f"{errors[0]}{more}")
        return RefreshReply(422, self._body(ask, self.generation, Plan((), ()), findings))

    def _reply(self, ask: RefreshAsk, planned: Plan, findings: Sequence[Finding]) -> RefreshReply:
        return RefreshReply(200, self._body(ask, self.generation, planned, findings))

    def _body(self, ask: RefreshAsk, generation: int, planned: Plan, findings: Sequence[Finding]) -> dict[str, Any]:
        return {
            "mode": ask.mode,
            "generation": generation,
            "new_generation": None,
            "changes": [self._change(change) for change in planned.changes],
            "restart_required": [entry.as_json() for entry in planned.restart_required],
            "findings": [finding.as_json() for finding in findings],
            "nodes": [],
        }

    def _change(self, change: Change) -> dict[str, object]:
        """A change as JSON; a shrunk provider tells how many slots it would owe (`over_by`)."""
        provider = _RESIZED_PROVIDER.search(change.path)
        if change.kind != "resized" or provider is None or not isinstance(change.to, int):
            return change.as_json()
        return {**change.as_json(), "over_by": max(0, self._ports.in_flight().get(provider[1], 0) - change.to)}


def _moved_on(ask: RefreshAsk, running: int) -> Finding:
    message = f"the running config is generation {running}, not {ask.expect_generation} as expected"
    hint = "look at what was applied meanwhile (GET /status), then plan again"
    return _fault(ask.source, "generation_mismatch", message, hint)


def _fault(source: str, code: str, message: str, hint: str) -> Finding:
    """A fault of the whole file or of the question."""
    return Finding(severity="error", code=code, file=source, line=1, column=1, path="", message=message, hint=hint)
