"""Probing engines and telling the Edge."""

import msgspec
import pytest

from iop.adapters.contract import ProbeResult
from iop.link.messages import NodeRuntimeConfig, ProviderHealth
from iop.node.probes import Probes
from iop.node.rack import Rack
from iop.transport.tasks import TaskSet
from tests.fakes.node_parts import FakeAdapter, FakeFactory, runtime, turns
from tests.fakes.until import until

UP = ProbeResult(up=True)
REFUSED = ProbeResult(up=False, reason="connection refused")
SILENT = ProbeResult(up=False, reason="no answer in 5 s", silent=True)


class Bench:
    """Probes with a recorded Edge; rounds are made by hand."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool, str | None]] = []
        self.silent: list[ProviderHealth] = []
        self.tasks = TaskSet()
        self.factory = FakeFactory()
        self.rack = Rack(self.factory, self.tasks)
        self.probes = Probes(self.rack, self.tasks, self._note)

    def _note(self, health: ProviderHealth) -> None:
        if health.silent:
            self.silent.append(health)
        else:
            self.told.append((health.provider_id, health.up, health.reason))

    def begin(self, *results: ProbeResult) -> None:
        """Say hello; the engine will answer `results`. Rounds begin when a test makes one."""
        config = runtime()
        self.rack.apply(config)
        self.engine.probes = list(results)
        self.probes.start(config, hello=True)
        self.probes.stop()

    @property
    def engine(self) -> FakeAdapter:
        return self.factory.last("e1")

    async def rounds(self, count: int) -> list[bool]:
        """Make rounds; returns the verdicts told meanwhile."""
        before = len(self.told)
        for _ in range(count):
            await self.probes.round()
        return [up for _, up, _ in self.told[before:]]


@pytest.mark.parametrize(
    ("results", "verdicts"),
    [
        ([UP, UP], [True, True]),
        ([REFUSED], [False]),
        ([UP, REFUSED], [True]),
        ([UP, REFUSED, REFUSED], [True, False]),
        ([UP, REFUSED, UP, REFUSED], [True, True]),
        ([REFUSED, UP], [False, True]),
        ([SILENT], [False]),
        ([UP, SILENT, REFUSED], [True, False]),
    ],
)
async def test_down_is_two_in_a_row_and_one_at_hello(results: list[ProbeResult], verdicts: list[bool]) -> None:
    """One bad probe at hello is down; later it takes two in a row; one good one is up."""
    bench = Bench()
    bench.begin(*results)
    assert await bench.rounds(len(results)) == verdicts


async def test_the_reason_is_told() -> None:
    """A provider that is down is told with what was wrong, and shown so."""
    bench = Bench()
    bench.begin(REFUSED)
    await bench.rounds(1)
    assert bench.told == [("p1", False, "connection refused")]
    assert bench.probes.verdicts["p1"].up is False


async def test_silence_under_work_gives_no_verdict() -> None:
    """While work is in flight an engine may be silent for ever, and the Edge is told so; a refusal still counts."""
    bench = Bench()
    bench.begin(UP, SILENT)
    mounted = bench.rack.get("e1")
    assert mounted is not None
    bench.rack.take(mounted)
    assert await bench.rounds(5) == [True]
    assert bench.silent == [ProviderHealth(provider_id="p1", up=True, silent=True)] * 4
    bench.engine.probes = [REFUSED]
    assert await bench.rounds(2) == [False]
    bench.engine.probes = [SILENT]
    assert await bench.rounds(1) == []
    assert bench.silent[4:] == [ProviderHealth(provider_id="p1", up=False, reason="connection refused", silent=True)]
    bench.rack.give(mounted)
    bench.engine.probes = [UP, SILENT]
    assert await bench.rounds(3) == [True, False]


async def test_silence_is_logged_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    """Once, not with each probe; and again after an answer. Before any verdict the engine counts as up."""
    bench = Bench()
    bench.begin(SILENT, SILENT, UP, SILENT)
    mounted = bench.rack.get("e1")
    assert mounted is not None
    bench.rack.take(mounted)
    caplog.set_level("INFO")
    assert await bench.rounds(4) == [True]
    assert bench.silent[0] == ProviderHealth(provider_id="p1", up=True, silent=True)
    assert caplog.text.count("e1 has work and does not answer its probe: no answer in 5 s") == 2


async def test_a_new_hello_knows_nothing() -> None:
    """After a redial one bad probe is enough again; after a push it is not, unless the engine is a new one."""
    bench = Bench()
    bench.begin(UP)
    await bench.rounds(1)
    bench.begin(REFUSED)
    assert await bench.rounds(1) == [False]
    bench.engine.probes = [UP, REFUSED]
    await bench.rounds(1)
    bench.probes.start(runtime(), hello=False)
    bench.probes.stop()
    assert await bench.rounds(1) == []
    changed = runtime(endpoint="http://127.0.0.1:2/v1")
    bench.rack.apply(changed)
    bench.engine.probes = [REFUSED]
    assert await bench.rounds(1) == [False]
    await bench.tasks.close()


async def test_an_adapter_that_could_not_be_built_is_down() -> None:
    """A provider without a usable adapter is down, with the reason."""
    bench = Bench()
    bench.factory.broken["e1"] = OSError("key file is missing")
    config = runtime()
    bench.rack.apply(config)
    bench.probes.start(config, hello=True)
    await turns()
    assert bench.told == [("p1", False, "key file is missing")]
    await bench.tasks.close()


async def test_rounds_come_in_their_rhythm() -> None:
    """Started probes go on by themselves and end when stopped."""
    bench = Bench()
    config = msgspec.structs.replace(runtime(), probe_every=0.001)
    bench.rack.apply(config)
    bench.probes.start(config, hello=True)
    await until(lambda: len(bench.told) >= 3)
    bench.probes.stop()
    await bench.tasks.drained()
    assert set(bench.told) == {("p1", True, None)}


async def test_a_probe_that_raises_does_not_end_the_probing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of an adapter's probe is logged, and the next round goes on."""
    bench = Bench()
    bench.begin(UP)

    async def broken() -> ProbeResult:
        raise RuntimeError("bug")

    with monkeypatch.context() as patch:
        patch.setattr(bench.engine, "probe", broken)
        assert await bench.rounds(1) == []
    assert "the probe of e1 failed" in caplog.text
    assert await bench.rounds(1) == [True]


async def test_removed_providers_are_forgotten() -> None:
    """A provider that a push removes is shown no more."""
    bench = Bench()
    bench.begin(UP)
    await bench.rounds(1)
    bench.probes.start(NodeRuntimeConfig(node_id="n1"), hello=False)
    assert bench.probes.verdicts == {}
    await bench.tasks.close()
