"""The provider pool route: ask the door, hand the request over, give the slot back when the work has really ended."""

import logging
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web

from iop.adapters.contract import RETURNABLE
from iop.config.models import EdgeConfig
from iop.domain.effects import Lease
from iop.domain.specs import Ask
from iop.edge.call import Call
from iop.edge.client_run import ClientRun
from iop.edge.door import Door
from iop.edge.journal import Entry
from iop.edge.links import Links, NodeOffline, RunSpec
from iop.edge.lookup import Lookup
from iop.edge.owners import ResponseOwners
from iop.edge.relay import Relay
from iop.edge.reply import Reply
from iop.edge.ticket import Ticket
from iop.link.messages import End
from iop.openai.headers import request_headers
from iop.openai.request import engine_body
from iop.transport.http_connection import client_must_stay

_log = logging.getLogger(__name__)


class Work(ClientRun):
    """A lease with work started for it: settles the lease exactly once, when the work has really ended."""

    def __init__(self, door: Door, lease: Lease, owners: ResponseOwners) -> None:
        super().__init__(f"Provider {lease.provider_id}")
        self._door = door
        self._owners = owners
        self.lease = lease
        self.returned = False

    def on_end(self, end: End) -> None:
        """The work has ended (called once, by the link). A failure without a status goes back to the line."""
        self.ended = True
        if self._may_return(end):
            self.returned = True
            self._door.give_back(self.lease, end.failure or "reset", end.detail)
        else:
            self._door.end(self.lease, *self.verdict(end))

    def leave(self) -> None:
        """The client is gone: from now on only the end of the work will be heard of."""
        if not self.ended:
            self._door.unheard(self.lease)
        super().leave()

    def heard(self) -> None:
        """Something of the answer came."""
        self._door.heard(self.lease)

    def made(self, response_id: str) -> None:
        """The answer is a response of this id: what continues it must go to this provider."""
        self._owners.note(response_id, self.lease.provider_id)

    def held_up(self) -> None:
        """The client does not read, so that nothing more can come."""
        self._door.held_up(self.lease)

    def resumed(self) -> None:
        """The client reads again."""
        self._door.resumed(self.lease)

    def _may_return(self, end: End) -> bool:
        head_seen = self.run is not None and self.run.head_seen
        return not self.stopped and not head_seen and (end.failure in RETURNABLE or end.failure == "link_lost")


class _Turn:
    """One request's grants: each is begun with in the very turn in which it comes, whether its handler runs or not."""

    def __init__(self, start: Callable[[Lease], Work], entry: Entry, ticket: Ticket) -> None:
        self._start = start
        self._entry = entry
        self._ticket = ticket
        self._work: Work | None = None

    def begin(self, lease: Lease) -> None:
        """A slot was granted: start the work."""
        self._entry.granted(lease)
        self._work = self._start(lease)

    def work_of(self, lease: Lease) -> Work:
        """Return the work of a grant, which is started now if it was not told to `begin`."""
        if self._work is None or self._work.lease is not lease:
            self.begin(lease)
        assert self._work is not None
        return self._work

    def leave(self) -> None:
        """The client has been served or has left: let go of what still runs or waits, and note what it came to.

        Safe to repeat.
        """
        if (work := self._work) is not None:
            work.leave()
            if work.returned:
                self._entry.in_line_again()
            else:
                self._entry.outcome, self._entry.reason = work.result
        self._ticket.leave()
        self._entry.outcome = self._ticket.fate or self._entry.outcome


class Pool:
    """Answers pool requests. `current` returns the config in force."""

    def __init__(self, door: Door, links: Links, current: Callable[[], EdgeConfig]) -> None:
        self._door = door
        self._links = links
        self._current = current
        self._works: set[Work] = set()
        self._owners = ResponseOwners()
        self._lookup = Lookup()

    async def answer(self, call: Call, ask: Ask) -> web.StreamResponse:
        """Wait for a slot, run, relay. Raises the IopError to tell the client while nothing was sent."""
        reply = Reply(call, self._current().stream)
        if call.operation == "responses" and ask.check is None:
            ask = replace(ask, owner=self._owners.of(call.parsed.previous_response_id))
        return await reply.complete(self._answer(reply, ask))

    async def _answer(self, reply: Reply, ask: Ask) -> web.StreamResponse:
        ticket = self._door.ask(ask)
        turn = _Turn(lambda lease: self._start(reply.call, lease, ticket), reply.entry, ticket)
        try:
            if not ticket.refused:
                client_must_stay(reply.call.http, turn.leave)
            ticket.on_grant(turn.begin)
            while True:
                lease = await reply.during(ticket.lease)
                response = await self._relay(reply, turn.work_of(lease))
                if response is not None:
                    return response
        finally:
            turn.leave()

    def cut_all(self, reason: str) -> None:
        """Stop all pool work (drain deadline)."""
        for work in tuple(self._works):
            work.cut(reason)

    def cut_provider(self, provider_id: str, reason: str) -> None:
        """Stop the work of one provider (removed, its drain_timeout is over)."""
        for work in tuple(self._works):
            if work.lease.provider_id == provider_id:
                work.cut(reason)

    def _start(self, call: Call, lease: Lease, ticket: Ticket) -> Work:
        config = self._current()
        work = Work(self._door, lease, self._owners)
        provider = self._lookup.provider(config, lease.provider_id)
        engine_model = self._lookup.engine_model(config, call.parsed.model, lease.provider_id)
        if provider is None or engine_model is None:  # a refresh took it away between grant and here
            work.on_end(End(run=0, outcome="failed", failure="unreachable", detail="the provider was removed"))
            return work
        spec = RunSpec(
            request_id=ticket.request_id,
            adapter=provider.adapter,
            operation=call.operation,
            stream=call.parsed.stream,
            provider_id=lease.provider_id,
            model_group_key=call.parsed.model,
            provider_pool=True,
            headers=request_headers(call.http.headers.items()),
            timeout=config.engine.answer_timeout,
            body=engine_body(call.parsed, engine_model),
        )
        self._works.add(work)

        def on_end(end: End) -> None:
            self._works.discard(work)
            work.on_end(end)

        try:
            work.run = self._links.start(lease.node_id, spec, on_end)
            work.run.listen(work)
        except NodeOffline:
            on_end(End(run=0, outcome="failed", failure="link_lost", detail="the node is offline"))
        return work

    async def _relay(self, reply: Reply, work: Work) -> web.StreamResponse | None:
        """Return the answer, or None when the request is in line again."""
        if work.run is None:
            return None
        first = await reply.during(work.run.head)
        if isinstance(first, End):
            if work.returned:
                return None
            raise work.error(first)
        own = {"x-iop-provider": work.lease.provider_id, "x-iop-queue-ms": str(int(work.lease.waited * 1000))}
        return await Relay(reply, work, own).answer(work.run, first)
