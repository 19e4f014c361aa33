"""Which peers, which measures, how often; and the order of turns."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from tests.bench.speed import capacity, leaving, measures
from tests.bench.speed.judging import Goal
from tests.bench.speed.measures import Measure
from tests.bench.speed.peers import PEERS
from tests.bench.speed.rig import NotUp, Running
from tests.bench.speed.session import FAULTS, Session

#: those before one engine without a limit; memory comes first, while a peer is fresh
OPEN: Mapping[str, Measure] = {
    "features": measures.features, "mem": measures.memory, "rps": measures.requests, "stream0": measures.unpaced,
    "stream20": measures.spread, "stream20burst": measures.at_once, "streamload": measures.loaded,
    "big_up": measures.large_request, "big_down": measures.large_stream, "cancel": leaving.cancel,
    "slow": leaving.stalled,
}  # fmt: skip
#: those before three engines with limits
LIMITED: Mapping[str, Measure] = {"bursts": capacity.bursts, "turns": capacity.turns, "left": capacity.left_in_line}
MEASURES = [*OPEN, *LIMITED]
#: (peer, measure) -> why it is not asked for it
SPARED: Mapping[tuple[str, str], str] = {
    **{
        ("litellm", test): "does not keep up with it, and is still busy when the next measure begins"
        for test in ("stream20burst", "streamload", "big_down", "slow")
    },
    **{("direct", test): "there is no peer whose memory or line would count" for test in ("mem", "slow", *LIMITED)},
}
#: those that have a line in front of limits: only they repeat those measures
QUEUING = ("haproxy", "iop", "iop-logged")


@dataclass(frozen=True)
class Plan:
    """`rounds` holds where `once` does not name the measure; `only`: peers of a measure, where not all.

    `patience` is that of a Session; `often`: rounds of a measure, where they are others.
    """

    peers: Sequence[str]
    tests: Sequence[str]
    rounds: int
    seconds: float
    connections: tuple[int, ...]
    once: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    patience: float = 900.0
    often: Mapping[str, int] = field(default_factory=dict)

    def narrowed(self, peers: Sequence[str] | None, tests: Sequence[str] | None, rounds: int | None) -> Self:
        """The same for less, or for other rounds; None leaves it."""
        chosen = replace(self, peers=peers or self.peers, tests=tests or self.tests)
        return replace(chosen, rounds=rounds, often={}) if rounds else chosen

    def without(self, peers: Collection[str]) -> Self:
        """The same with these peers left out."""
        return replace(self, peers=[one for one in self.peers if one not in peers])

    def asks(self, peer: str, test: str) -> bool:
        """The peer takes part in the measure."""
        return (peer, test) not in SPARED and peer in self.peers and peer in self.only.get(test, self.peers)

    def measures(self, goal: Goal) -> bool:
        """It is to measure the goal: all that the goal needs is in it. Correctness is a part of every run."""
        return goal.kind == "correctness" or all(
            test in self.tests and self.asks(peer, test) for test, peer in goal.needs()
        )

    def rounds_of(self, test: str) -> int:
        """How often a measure is taken."""
        return 1 if test in self.once else self.often.get(test, self.rounds)


FULL = Plan(list(PEERS), MEASURES, 5, 2.0, (1, 10, 64), once=("features", "mem"))
QUICK = Plan(
    ["direct", "nginx-2hop", "haproxy", "iop"],
    [one for one in MEASURES if one not in {"features", "stream0", "stream20burst"}],
    3, 1.0, (1, 64), once=("mem", "big_up", "big_down", "slow", "bursts", "left"),
    only={
        "mem": ["iop"], "slow": ["iop"], "bursts": ["iop"], "left": ["iop"], "cancel": ["iop"],
        "turns": ["haproxy", "iop"], "streamload": ["nginx-2hop", "iop"], "stream20": ["direct", "nginx-2hop", "iop"],
        "big_up": ["direct", "iop"], "big_down": ["nginx-2hop", "iop"],
    },
    patience=45.0,
    often={"cancel": 7},  # short, and a matter of when the system wakes whom
)  # fmt: skip


def take_turns(session: Session, plan: Plan) -> None:
    """Take every measure of the plan, first those without limits, then those with."""
    for tests, limited in ((OPEN, False), (LIMITED, True)):
        chosen = [one for one in tests if one in plan.tests]
        names = [name for name in plan.peers if any(plan.asks(name, one) for one in chosen)]
        up = _start(session, names, limited=limited)
        for test in chosen:
            _rounds(session, plan, tests[test], test, up)
        for peer in up:
            session.rig.stop(peer)


def _start(session: Session, names: Sequence[str], *, limited: bool) -> list[Running]:
    up = []
    for name in names:
        try:
            peer = session.rig.start(name, PEERS[name], limited=limited)
        except NotUp as error:
            session.say(str(error))
            session.add({"test": "left out", "peer": name, "reason": str(error)})
            continue
        if peer is not None:
            session.say(f"{name} is up{' before three engines with limits' if limited else ''}")
            up.append(peer)
    return up


def _rounds(session: Session, plan: Plan, measure: Measure, test: str, up: Sequence[Running]) -> None:
    """A B C, then C B A, and so on."""
    for number in range(plan.rounds_of(test)):
        for peer in up if number % 2 == 0 else reversed(up):
            if not plan.asks(peer.name, test) or (number and test in LIMITED and peer.name not in QUEUING):
                continue
            try:
                measure(session, peer, number)
            except FAULTS as error:
                session.say(f"{peer.name} {test}: {error!r}")
                session.add({"test": test, "peer": peer.name, "round": number, "error": repr(error)})
