"""Recording stand-ins for what a node talks to: a link, adapters, an adapter factory."""

import asyncio
from typing import Literal

from iop.adapters.contract import AnswerSink, ProbeResult, RunEnd, RunRequest
from iop.domain.effects import Outcome
from iop.link.messages import CliTarget, EngineInstance, Message, NodeRuntimeConfig, ProviderRuntime, Run

DONE = RunEnd(Outcome.COMPLETED)


class RecordingLink:
    """Notes what the node sends. Senders of a run in `stalled` wait until it is forgotten."""

    def __init__(self) -> None:
        self.sent: list[Message | tuple[int, bytes]] = []
        self.credit: list[tuple[int, int]] = []
        self.forgotten: list[int] = []
        self.stalled: dict[int, asyncio.Event] = {}

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def offer_body(self, run: int, data: bytes, *, end: bool = False) -> memoryview | None:
        assert not end
        if run in self.forgotten:
            raise ConnectionResetError("run is over")
        if run in self.stalled:
            return memoryview(data)
        self.sent.append((run, data))
        return None

    async def send_body(self, run: int, data: bytes, *, end: bool = False) -> None:
        assert not end
        if run in self.stalled:
            await self.stalled[run].wait()
        if run in self.forgotten:
            raise ConnectionResetError("run is over")
        self.sent.append((run, data))

    def drained(self, run: int, n: int) -> None:
        self.credit.append((run, n))

    def forget(self, run: int) -> None:
        self.forgotten.append(run)
        if run in self.stalled:
            self.stalled[run].set()

    def of(self, kind: type) -> list[Message]:
        """Return the messages of one kind, in order."""
        return [message for message in self.sent if isinstance(message, kind)]


class FakeAdapter:
    """An adapter whose runs wait until `finish`, and whose probes answer what `probes` holds (last one repeats)."""

    def __init__(self, name: str, kind: Literal["cli", "openai_compat"], max_concurrency: int) -> None:
        self.name = name
        self.type = kind
        self.max_concurrency = max_concurrency
        self.requests: list[RunRequest] = []
        self.sinks: list[AnswerSink] = []
        self.stopped: list[str] = []
        self.closed = False
        self.probes: list[ProbeResult] = [ProbeResult(up=True)]
        self._ends: dict[str, asyncio.Future[RunEnd]] = {}

    async def run(self, request: RunRequest, sink: AnswerSink) -> RunEnd:
        self.requests.append(request)
        self.sinks.append(sink)
        self._ends[request.request_id] = asyncio.get_running_loop().create_future()
        try:
            return await self._ends[request.request_id]
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # stopping takes a turn of the loop
            self.stopped.append(request.request_id)
            raise

    def finish(self, request_id: str, end: RunEnd = DONE) -> None:
        """End a run by itself."""
        self._ends[request_id].set_result(end)

    def fail(self, request_id: str, error: Exception) -> None:
        """Let a run raise what an adapter must not raise."""
        self._ends[request_id].set_exception(error)

    async def probe(self) -> ProbeResult:
        return self.probes.pop(0) if len(self.probes) > 1 else self.probes[0]

    async def close(self) -> None:
        self.closed = True


class FakeFactory:
    """Makes fake adapters and notes them by name; `broken` names cannot be built."""

    def __init__(self) -> None:
        self.made: list[FakeAdapter] = []
        self.broken: dict[str, Exception] = {}

    def cli(self, targets: tuple[CliTarget, ...]) -> FakeAdapter:
        return self._make(FakeAdapter("cli", "cli", 0))

    def engine(self, instance: EngineInstance) -> FakeAdapter:
        return self._make(FakeAdapter(instance.name, "openai_compat", instance.capacity))

    def _make(self, adapter: FakeAdapter) -> FakeAdapter:
        if adapter.name in self.broken:
            raise self.broken[adapter.name]
        self.made.append(adapter)
        return adapter

    def last(self, name: str) -> FakeAdapter:
        """Return the newest adapter of that name."""
        return [adapter for adapter in self.made if adapter.name == name][-1]


def runtime(
    *,
    capacity: int = 2,
    on_disconnect: Literal["cancel", "cancel_streams", "finish"] = "cancel",
    endpoint: str = "http://127.0.0.1:1/v1",
    drain_timeout: float = 30.0,
    concurrency: int | None = None,
) -> NodeRuntimeConfig:
    """Make a node config with a CLI, an engine `e1` and its provider `p1`."""
    return NodeRuntimeConfig(
        node_id="n1",
        concurrency=concurrency,
        cli_enabled=True,
        cli_targets=(CliTarget(name="echo", kind="text", command=("echo",)),),
        engines=(EngineInstance(name="e1", provider="other", endpoint=endpoint, capacity=capacity),),
        providers=(
            ProviderRuntime(
                id="p1",
                type="other",
                category="local_inference",
                adapter="e1",
                capacity=capacity,
                on_disconnect=on_disconnect,
            ),
        ),
        drain_timeout=drain_timeout,
    )


def pool_run(number: int, *, stream: bool = False, request_id: str | None = None) -> Run:
    """Make a pool run for `p1`."""
    return Run(
        run=number,
        epoch=1,
        request_id=request_id or f"r{number}",
        adapter="e1",
        operation="chat.completions",
        stream=stream,
        provider_id="p1",
        model_group_key="m",
    )


def direct_run(number: int, *, adapter: str = "cli") -> Run:
    """Make a direct run; for an engine instance that is the legacy way."""
    return Run(
        run=number,
        epoch=1,
        request_id=f"d{number}",
        adapter=adapter,
        operation="responses",
        stream=True,
        target="echo" if adapter == "cli" else None,
        model_group_key="m",
        provider_pool=False,
    )


async def turns(count: int = 5) -> None:
    """Let the loop run what is ready, a few times over."""
    for _ in range(count):
        await asyncio.sleep(0)
