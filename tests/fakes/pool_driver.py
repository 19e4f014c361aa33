"""Admission and its model side by side: each call here is made to both. What to do next is chosen elsewhere."""

from collections.abc import Iterable

from iop.domain.admission import Admission
from iop.domain.effects import Outcome
from iop.domain.law import violations
from iop.domain.snapshots import PoolSnapshot
from iop.domain.specs import Ask, LineBounds, PoolSpec, ProviderSpec
from tests.fakes.line_model import LineModel, Waiter

NODES = {"a": "n1", "b": "n1", "c": "n2", "d": "n3"}
CAPACITY = {"a": 2, "b": 1, "c": 3, "d": 2}
MODELS = {"m1": ("a", "c"), "m2": ("b",), "m3": ("a", "b", "c", "d"), "m4": ("d", "a")}
BOUNDS = LineBounds(max_waiting=8, max_wait=30.0, offline_grace=6.0)
WEDGE_AFTER = 0.8
KEY_MAX_WAITING = 2
COUNTERS = ("received", "admitted", "adopted", "returned", "completed", "failed", "cancelled", "expired", "abandoned")


class Driver:
    """`connect=False` leaves every node offline. `closed` are the last leases given back: (id, node, epoch)."""

    def __init__(self, *, connect: bool = True) -> None:
        self.now = 0.0
        self.admission = Admission()
        self.model = LineModel(NODES, BOUNDS.offline_grace, BOUNDS.max_waiting, KEY_MAX_WAITING)
        self.epochs = dict.fromkeys(sorted(set(NODES.values())), 0)
        self.left_running: dict[str, list[tuple[str, str]]] = {node: [] for node in self.epochs}
        self.closed: list[tuple[int, str, int]] = []
        self.anomalies = {"double_release": 0, "stale_release": 0, "node_over_capacity": 0}
        self.seen = dict.fromkeys(COUNTERS, 0)
        self.configure(CAPACITY, MODELS)
        if connect:
            for node in self.epochs:
                self.connect(node)

    def do(self, call: str, *args: object, **options: object) -> None:
        effects = getattr(self.admission, call)(*args, self.now, **options)
        self.model.see(effects, self.now)

    # -- what must hold between any two calls ------------------------------------------------------------------------

    def check(self) -> PoolSnapshot:
        """The law, the loads, no idle slot, and the next wake-up."""
        snapshot = self.admission.snapshot(self.now)
        assert violations(snapshot) == []
        assert (snapshot.totals.in_flight, snapshot.totals.queued) == (len(self.model.held), len(self.model.waiting))
        assert snapshot.totals.capacity == sum(self.model.capacity.values())
        self.model.check_rest(self.admission.next_wakeup())
        return snapshot

    def look_closer(self, snapshot: PoolSnapshot) -> None:
        """What costs more to check: states, debts, waiters per provider, counters that only grow, anomalies."""
        for provider in snapshot.providers:
            name = provider.provider_id
            capacity = self.model.capacity.get(name, provider.capacity)
            assert provider.over_by == max(0, provider.in_flight - capacity)
            assert provider.queued == sum(name in self.model.candidates(w) for w in self.model.waiting)
            assert provider.state == self.model.state(name) == self.model.shown[name]
        counted = {name: getattr(snapshot.totals, name) for name in self.seen}
        assert all(counted[name] >= before for name, before in self.seen.items()), "a counter went down"
        self.seen = counted
        assert {name: getattr(snapshot.anomalies, name) for name in self.anomalies} == self.anomalies

    # -- requests ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        model: str,
        *,
        key: str | None = None,
        only: str | None = None,
        owner: str | None = None,
        streams: bool = False,
    ) -> None:
        """`only`: a check of one provider; `owner`: the one that made the response that this continues."""
        number, name = len(self.model.asked), f"r{len(self.model.asked)}"
        deadline = self.now + BOUNDS.max_wait
        self.model.asked[name] = Waiter(number, name, model, only, key, self.now, deadline, streams, owner)
        limit = KEY_MAX_WAITING if key else None
        self.do("ask", Ask(name, model, key, limit, check=only, owner=owner, streams=streams))

    def abandon(self, waiter: Waiter) -> None:
        self.do("abandon", waiter.id)
        assert self.admission.abandon("never heard of", self.now) == ()

    # -- leases ------------------------------------------------------------------------------------------------------

    def served(self) -> list[int]:
        """Leases that a request holds; adopted work is left out."""
        return [lease for lease, (_, waiter) in self.model.held.items() if waiter is not None]

    def end(self, lease_id: int, outcome: Outcome) -> None:
        self._note_closed(lease_id)
        self.do("end", lease_id, outcome)
        assert self.admission.lease(lease_id) is None

    def give_back(self, lease_id: int, failure: str) -> None:
        self.anomalies["node_over_capacity"] += failure == "busy"
        self._note_closed(lease_id)
        self.do("give_back", lease_id, failure)

    def release_again(self, entry: tuple[int, str, int], *, end: bool) -> None:
        """A second release, or one through an older link: nothing changes but the count."""
        lease_id, node, epoch = entry
        self.anomalies["stale_release" if epoch < self.epochs[node] else "double_release"] += 1
        if end:
            assert self.admission.end(lease_id, Outcome.COMPLETED, self.now) == ()
        else:
            assert self.admission.give_back(lease_id, "reset", self.now) == ()

    def byte(self, lease_id: int) -> None:
        self.model.sign(lease_id, self.now)
        self.do("sign_of_life", lease_id)

    def hold_up(self, lease_id: int) -> None:
        """Bytes came, and there is no room for more."""
        self.byte(lease_id)
        self.model.held_up.add(lease_id)
        self.do("held_up", lease_id)

    def resume(self, lease_id: int) -> None:
        self.model.resume(lease_id, self.now)
        self.do("resumed", lease_id)

    def unhear(self, lease_id: int) -> None:
        self.model.mute(lease_id, self.now)
        self.do("unheard", lease_id)

    def _note_closed(self, lease_id: int) -> None:
        lease = self.admission.lease(lease_id)
        assert lease is not None
        self.closed = [*self.closed[-30:], (lease_id, lease.node_id, lease.epoch)]

    # -- nodes -------------------------------------------------------------------------------------------------------

    def through(self, node: str) -> list[int]:
        """Leases that requests hold through this node."""
        leases = [self.admission.lease(lease_id) for lease_id in self.served()]
        return [lease.id for lease in leases if lease is not None and lease.node_id == node]

    def lose(self, node: str, settled: dict[int, str], outlives: Iterable[int]) -> None:
        """The link is lost; the shell settles each lease at once: a failure that gives it back, or an outcome."""
        assert self.admission.node_lost(node, self.epochs[node] - 1, self.now) == ()
        self.model.connected.discard(node)
        self.model.stopping.discard(node)
        self.do("node_lost", node, self.epochs[node])
        self.left_running[node] = [self._work(lease_id) for lease_id in outlives]
        for lease_id, how in settled.items():
            if how == "link_lost":
                self.give_back(lease_id, how)
            else:
                self.end(lease_id, Outcome(how))
        leases = [self.admission.lease(lease_id) for lease_id in self.model.held]
        assert not any(lease is None or lease.node_id == node for lease in leases), "held through a lost link"

    def connect(self, node: str, outlives: Iterable[int] = ()) -> None:
        """A new link, also over one that was never seen lost; what runs on there is adopted."""
        running = [*self.left_running[node], *(self._work(lease_id) for lease_id in outlives)]
        self.left_running[node] = []
        for lease_id in self.through(node):
            self._note_closed(lease_id)
        self.epochs[node] += 1
        mine = {p for p, its_node in NODES.items() if its_node == node}
        self.model.connected.add(node)
        self.model.stopping.discard(node)
        effects = self.admission.node_connected(node, self.epochs[node], self.now, running)
        self.model.busy -= mine
        self.model.unanswered -= mine
        self.model.see(effects, self.now)

    def _work(self, lease_id: int) -> tuple[str, str]:
        provider, waiter = self.model.held[lease_id]
        assert waiter is not None
        return provider, waiter.id

    def probe(self, provider: str, result: str) -> None:
        """`result`: up, down, or silent (no answer while work is in flight)."""
        if provider in self.model.capacity or self.model.in_flight(provider):
            self.model.probed(provider, result, self.now)
        if result == "silent":
            self.do("probe_silent", provider)
        else:
            self.do("provider_health", provider, result == "up", None if result == "up" else "HTTP 500")

    def stopping(self, node: str) -> None:
        """Only a node with a link can say so."""
        if node in self.model.connected:
            self.model.stopping.add(node)
        self.do("node_stopping", node)

    def drain(self, node: str, seconds: float) -> None:
        self.model.draining[node] = self.now + seconds
        self.do("drain", node, self.now + seconds, "test")

    def undrain(self, node: str) -> None:
        self.model.draining.pop(node, None)
        self.do("undrain", node)

    # -- time, config, the end ---------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.model.draining = {node: until for node, until in self.model.draining.items() if until > self.now}
        self.model.note_losses(self.now)
        self.do("tick")
        self.model.find_hidden(self.now)
        self.model.check_ticked(self.now)

    def configure(
        self, capacity: dict[str, int], models: dict[str, tuple[str, ...]], wedge_after: float = WEDGE_AFTER
    ) -> None:
        self.model.capacity, self.model.models = dict(capacity), dict(models)
        self.model.wedge_after = wedge_after
        specs = tuple(ProviderSpec(p, NODES[p], slots) for p, slots in capacity.items())
        self.do("configure", PoolSpec(specs, models, BOUNDS, wedge_after))

    def shut_down(self) -> None:
        self.model.leaving = True
        self.do("shut_down")

    def expire_all(self) -> None:
        self.model.leaving = self.model.closed = True
        self.do("expire_all")
        assert self.model.waiting == []

    def wind_down(self) -> None:
        """Bring everything back, then let the work end: nothing may be left, and each request has had one fate."""
        self.configure(CAPACITY, MODELS)
        for node in self.epochs:
            if node not in self.model.connected or node in self.model.stopping:
                self.connect(node)
            self.undrain(node)
        for provider in NODES:
            self.probe(provider, "up")
        for lease_id in list(self.model.held):
            self.byte(lease_id)
            self.resume(lease_id)
        self.look_closer(self.check())
        while self.model.held:
            self.end(next(iter(self.model.held)), Outcome.COMPLETED)
            self.check()
        snapshot = self.check()
        self.look_closer(snapshot)
        assert (snapshot.totals.in_flight, snapshot.totals.queued) == (0, 0)
        assert self.model.fates == dict.fromkeys(self.model.asked, 1)
        assert snapshot.totals.received == len(self.model.asked)
