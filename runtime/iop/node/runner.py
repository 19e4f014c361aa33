"""Runs work: one task per run, exactly one `end` each, once the work has really ended."""

import asyncio
import itertools
import logging
from functools import partial

from iop.adapters.contract import RunEnd, RunRequest
from iop.domain.effects import Outcome
from iop.link.messages import Cancel, End, NodeRuntimeConfig, Run, RunningWork
from iop.node.gate import Gate
from iop.node.rack import Rack
from iop.node.work import Connection, LinkSink, OnDisconnect, Work, facts
from iop.transport.tasks import TaskSet

#: work of an earlier link is numbered from here in a hello, far above the numbers an Edge gives
ADOPTED_FROM = 1 << 31

_log = logging.getLogger(__name__)


class Runner:
    """Owns all runs of the node: those of the present link and those that outlived an earlier one."""

    def __init__(self, rack: Rack, gate: Gate, tasks: TaskSet) -> None:
        self._rack = rack
        self._gate = gate
        self._tasks = tasks
        self._runtime = NodeRuntimeConfig(node_id="")
        self._on_disconnect: dict[str, OnDisconnect] = {}
        self._link: Connection | None = None
        self._works: dict[int, Work] = {}
        self._outliving: dict[int, Work] = {}
        self._unsent: list[End] = []
        self._numbers = itertools.count(ADOPTED_FROM)
        self._draining = False
        self._changed = asyncio.Event()

    def configure(self, runtime: NodeRuntimeConfig) -> None:
        """Take a pushed config over; running work is not touched."""
        self._runtime = runtime
        self._on_disconnect = {provider.id: provider.on_disconnect for provider in runtime.providers}
        self._gate.configure({provider.id: provider.capacity for provider in runtime.providers})

    def attach(self, link: Connection) -> None:
        """A link is accepted: ends of reported work go there, also those that came while it was being set up."""
        if self._link is link:
            return
        self._link = link
        for end in self._unsent:
            link.send(end)
        self._unsent.clear()

    def detach(self) -> None:
        """The link is lost: its runs are treated as if their clients had left."""
        self._link = None
        for work in tuple(self._works.values()):
            del self._works[work.run.run]
            work.discard()
            work.connection = None
            work.adopted = next(self._numbers)
            self._outliving[work.adopted] = work
            self._client_gone(work)

    def reported(self) -> tuple[RunningWork, ...]:
        """What the next hello tells: all work that still runs (or still stops) from earlier links."""
        self._unsent.clear()
        return tuple(
            RunningWork(
                run=number,
                request_id=work.run.request_id,
                adapter=work.run.adapter,
                provider_id=work.gated,
            )
            for number, work in self._outliving.items()
        )

    def on_run(self, link: Connection, run: Run) -> None:
        """Begin a run, or refuse it with its `end`."""
        refusal = self._admit(link, run)
        if refusal is not None:
            _log.warning("run refused: %s", refusal.detail, extra={"fields": facts(run, "refused", refusal)})
            link.send(_end(run.run, refusal))
            link.forget(run.run)

    def on_body(self, link: Connection, number: int, data: bytes, *, end: bool) -> None:
        """Collect the body of a run; the work starts when it is whole."""
        work = self._works.get(number)
        if work is None or work.task is not None:  # refused or cancelled meanwhile
            return
        work.body += data
        if data:
            link.drained(number, len(data))
        if end:
            self._start(work)

    def on_cancel(self, cancel: Cancel) -> None:
        """Stop a run, or let it go on unread where on_disconnect says so. Unknown runs have ended already."""
        work = self._works.get(cancel.run) or self._outliving.get(cancel.run)
        if work is None:
            return
        if cancel.why == "limit":
            self._stop(work, RunEnd(Outcome.CANCELLED))
        else:
            work.discard()
            self._client_gone(work)

    def begin_drain(self) -> None:
        """Take no new runs: from now on each is answered `stopping`."""
        self._draining = True

    def cut_all(self, detail: str) -> None:
        """Stop all work; a run without a status line fails in a way that lets the request go elsewhere."""
        for work in (*self._works.values(), *self._outliving.values()):
            self._stop(work, RunEnd(Outcome.FAILED, "broken" if work.head_sent else "reset", detail))

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self._works or self._outliving:
            self._changed.clear()
            await self._changed.wait()

    @property
    def running(self) -> int:
        """How many runs there are, those of earlier links included."""
        return len(self._works) + len(self._outliving)

    @property
    def direct_running(self) -> int:
        """How many of them are direct."""
        return sum(work.gated is None for work in (*self._works.values(), *self._outliving.values()))

    def _admit(self, link: Connection, run: Run) -> RunEnd | None:
        if self._draining:
            return RunEnd(Outcome.FAILED, "stopping", "the node is stopping")
        mounted = self._rack.get(run.adapter)
        if mounted is None:
            why = self._rack.failures.get(run.adapter, "it is not in this node's config")
            return RunEnd(Outcome.FAILED, "unreachable", f"adapter {run.adapter} cannot be used: {why}")
        work = Work(run, link, mounted, self._policy(run))
        if run.provider_pool and work.gated is None:
            return RunEnd(Outcome.FAILED, "unreachable", "a pool run must name its provider")
        if work.gated is not None and not self._gate.take(work.gated):
            return RunEnd(Outcome.FAILED, "busy", f"all slots of {work.gated} are taken on the node")
        self._rack.take(mounted)
        self._works[run.run] = work
        return None

    def _policy(self, run: Run) -> OnDisconnect:
        provider = run.provider_id if run.provider_pool else None
        return "cancel" if provider is None else self._on_disconnect.get(provider, "cancel")

    def _start(self, work: Work) -> None:
        run = work.run
        request = RunRequest(
            request_id=run.request_id,
            operation=run.operation,
            stream=run.stream,
            body=bytes(work.body),
            headers=run.headers,
            target=run.target,
            model=run.model_group_key,
            timeout=run.timeout if run.timeout is not None else self._runtime.answer_timeout,
            idle_timeout=self._runtime.idle_timeout,
        )
        work.body.clear()
        work.task = self._tasks.start(work.mounted.adapter.run(request, LinkSink(work)), name=f"run {run.request_id}")
        work.task.add_done_callback(partial(self._task_done, work))

    def _client_gone(self, work: Work) -> None:
        if work.task is None or not work.outlives_client:
            self._stop(work, RunEnd(Outcome.CANCELLED))

    def _stop(self, work: Work, end: RunEnd) -> None:
        if work.cut is not None:  # a second cancel would disturb the adapter while it stops
            return
        work.cut = end
        if work.task is None:
            self._over(work, end)
        else:
            work.task.cancel()

    def _task_done(self, work: Work, task: asyncio.Task[RunEnd]) -> None:
        if task.cancelled():
            end = work.cut or RunEnd(Outcome.CANCELLED)
        elif task.exception() is not None:  # logged by the task set
            end = RunEnd(Outcome.FAILED, "broken", "internal error on the node; its log has the details")
        else:
            end = task.result()
        self._over(work, end)

    def _over(self, work: Work, end: RunEnd) -> None:
        if work.gated is not None:
            self._gate.give(work.gated)
        self._rack.give(work.mounted)
        if _log.isEnabledFor(logging.INFO):
            _log.info("run", extra={"fields": work.facts(end)})
        if work.adopted is not None:
            del self._outliving[work.adopted]
            self._send_late(_end(work.adopted, end))
        else:
            del self._works[work.run.run]
            if work.connection is not None:
                work.connection.send(_end(work.run.run, end))
                work.connection.forget(work.run.run)
        self._changed.set()

    def _send_late(self, end: End) -> None:
        if self._link is not None:
            self._link.send(end)
        else:  # a hello that reported it may be under way
            self._unsent.append(end)


def _end(number: int, end: RunEnd) -> End:
    return End(run=number, outcome=end.outcome.value, failure=end.failure, detail=end.detail)
