"""The direct route: straight to one node's adapter. No queue, no slot, no provider accounting; counted per node."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from aiohttp import web

from iop.config.models import DirectRoute, EdgeConfig
from iop.domain.effects import Outcome
from iop.domain.errors import NotFound, Unavailable
from iop.domain.snapshots import NodeState
from iop.edge.call import Call
from iop.edge.client_run import ClientRun
from iop.edge.links import LinkRun, Links, NodeOffline, RunSpec
from iop.edge.relay import Relay
from iop.edge.reply import Reply
from iop.link.messages import End
from iop.openai.headers import request_headers
from iop.transport.http_border import request_id
from iop.transport.http_connection import client_must_stay


@dataclass(frozen=True, slots=True)
class DirectCounters:
    """Direct work of one node: under way now, and ended since the Edge started."""

    in_flight: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class DirectEvent:
    """A direct run started (outcome and seconds None), or ended after so many seconds."""

    request_id: str
    model: str
    node_id: str
    outcome: Outcome | None = None
    reason: str | None = None
    seconds: float | None = None


class Direct:
    """Runs direct requests. `state` tells a node's state; `publish` gets started and ended events."""

    def __init__(
        self,
        links: Links,
        current: Callable[[], EdgeConfig],
        state: Callable[[str], NodeState | None],
        publish: Callable[[DirectEvent], None],
    ) -> None:
        self._links = links
        self._current = current
        self._state = state
        self._publish = publish
        self._counters: dict[str, dict[str, int]] = {}
        self._runs: set[ClientRun] = set()
        self._changed: asyncio.Event | None = None

    def counters(self, node_id: str) -> DirectCounters:
        """Return the node's direct counters."""
        return DirectCounters(**self._counters.get(node_id, {}))

    async def idle(self) -> None:
        """Wait until no direct run of ours is under way."""
        while self._runs:
            self._changed = self._changed or asyncio.Event()
            self._changed.clear()
            await self._changed.wait()

    def adopted(self, node_id: str) -> None:
        """A node came with direct work of an earlier link still running."""
        self._count(node_id, "in_flight", 1)

    def adopted_ended(self, node_id: str, outcome: Outcome) -> None:
        """Adopted direct work has ended."""
        self._count(node_id, "in_flight", -1)
        self._count(node_id, outcome.value, 1)

    def cut_all(self, reason: str) -> None:
        """Stop all direct work (drain deadline)."""
        for run in tuple(self._runs):
            run.cut(reason)

    async def answer(self, call: Call, route: DirectRoute) -> web.StreamResponse:
        """Run and relay. Raises NotFound when it shall continue a response, as agents keep none; Unavailable when the
        node is draining or offline; or the agent's failure.
        """
        if call.operation == "responses" and call.parsed.previous_response_id is not None:
            raise NotFound(
                f"The agent behind {call.parsed.model!r} keeps no responses. "
                "Send the whole conversation without previous_response_id.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        self._refuse_if_away(route.node)
        reply = Reply(call, self._current().stream)
        return await reply.complete(self._answer(reply, route))

    async def _answer(self, reply: Reply, route: DirectRoute) -> web.StreamResponse:
        call = reply.call
        work = ClientRun(f"Node {route.node}")
        spec = RunSpec(
            request_id=request_id(call.http),
            adapter=route.adapter,
            operation=call.operation,
            stream=call.parsed.stream,
            target=route.target,
            provider_id=None,
            model_group_key=call.parsed.model,
            provider_pool=False,
            headers=request_headers(call.http.headers.items()),
            timeout=self._current().engine.answer_timeout,
            body=call.parsed.body,
        )
        event = DirectEvent(spec.request_id, call.parsed.model, route.node)
        client_must_stay(call.http, work.leave)
        reply.entry.given_to(route.node)
        begun = asyncio.get_running_loop().time()
        try:
            run = self._links.start(route.node, spec, lambda end: self._ended(work, event, begun, end))
        except NodeOffline:
            raise _offline(route.node) from None
        work.run = run
        self._started(work, event)
        try:
            return await self._relay(reply, work, run)
        finally:
            work.leave()
            reply.entry.outcome, reply.entry.reason = work.result

    async def _relay(self, reply: Reply, work: ClientRun, run: LinkRun) -> web.StreamResponse:
        first = await reply.during(run.head)
        if isinstance(first, End):
            raise work.error(first)
        # an agent has no status of its own; a refusal of what it was asked (a NUL) is iop's own
        own = {"x-iop-node": run.node_id} if first.status < 400 else {}
        return await Relay(reply, work, own).answer(run, first)

    def _started(self, work: ClientRun, event: DirectEvent) -> None:
        self._runs.add(work)
        self._count(event.node_id, "in_flight", 1)
        self._publish(event)

    def _ended(self, work: ClientRun, event: DirectEvent, begun: float, end: End) -> None:
        work.ended = True
        self._runs.discard(work)
        if self._changed is not None:
            self._changed.set()
        outcome, reason = work.verdict(end)
        self._count(event.node_id, "in_flight", -1)
        self._count(event.node_id, outcome.value, 1)
        seconds = asyncio.get_running_loop().time() - begun
        self._publish(replace(event, outcome=outcome, reason=reason, seconds=seconds))

    def _count(self, node_id: str, name: str, step: int) -> None:
        counters = self._counters.setdefault(node_id, {})
        counters[name] = counters.get(name, 0) + step

    def _refuse_if_away(self, node_id: str) -> None:
        state = self._state(node_id)
        if state is NodeState.DRAINING:
            raise Unavailable(
                f"Node {node_id} is draining and takes no new requests.", code="node_draining", retry_after=5
            )
        if state is not NodeState.CONNECTED:
            raise _offline(node_id)


def _offline(node_id: str) -> Unavailable:
    return Unavailable(f"Node {node_id} is not connected.", code="node_offline", retry_after=5)
