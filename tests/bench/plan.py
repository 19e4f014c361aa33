"""The schedule of a chaos run: which fault, where, when and for how long. All of it follows from the seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

QUIET_START_S = 3.0
#: of every four pauses between two rounds of faults, one is long enough to see the pool whole again
SHORT_PAUSE_S, LONG_PAUSE_S = (2.0, 7.0), (12.0, 20.0)
ROUND_SPREAD_S = 2.0
MOST_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: what it hits (`node`, `provider`, `edge`, `control`, `host`), how long it lasts (seconds, at
    least and at most), and how often it is drawn, in proportion.
    """

    hits: str
    seconds: tuple[float, float]
    weight: int = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the schedule. `at` and `seconds` are seconds from the start of the run and of its life; `share` in
    [0, 1) chooses what a kind leaves open (a new capacity, a percentage).
    """

    number: int
    at: float
    kind: str
    target: str
    seconds: float
    share: float

    @property
    def until(self) -> float:
        """When it is to be healed."""
        return self.at + self.seconds

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} {self.target} at {self.at:.1f} s for {self.seconds:.1f} s"


#: what can be done to processes of this machine, with a forwarder in each link and before each engine
LOOPBACK: Mapping[str, Kind] = {
    "kill node": Kind("node", (0.2, 5)),
    "kill engine": Kind("provider", (0.2, 6)),
    "kill edge": Kind("edge", (0, 0)),
    "kill control": Kind("control", (0.2, 4), 1),
    "freeze node": Kind("node", (0.3, 9)),
    "freeze engine": Kind("provider", (0.3, 7)),
    "freeze edge": Kind("edge", (0.3, 8), 1),
    "freeze control": Kind("control", (0.3, 4), 1),
    "stop node": Kind("node", (0.2, 4)),
    "restart edge": Kind("edge", (0, 0), 1),
    "cut link": Kind("node", (0.3, 5)),
    "reset link": Kind("node", (0, 0)),
    "silence link": Kind("node", (0.3, 9)),
    "slow link": Kind("node", (2, 6)),
    "engine answers 500": Kind("provider", (1, 6)),
    "engine answers garbage": Kind("provider", (1, 5)),
    "engine hangs": Kind("provider", (1, 6)),
    "engine cuts answers": Kind("provider", (1, 5)),
    "engine resets": Kind("provider", (1, 5)),
    "drain node": Kind("node", (0.5, 6)),
    "resize provider": Kind("provider", (1, 8), 4),
    "remove provider": Kind("provider", (0.5, 6)),
}

#: what can be done to booted hosts and their services; the Edge's host keeps its cable, by which the clients come
LAB: Mapping[str, Kind] = {
    "cut host": Kind("host", (0.5, 25), 3),
    "lose packets of host": Kind("host", (4, 15), 3),
    "freeze host": Kind("host", (0.5, 25), 3),
    "crash host": Kind("host", (1, 8), 2),
    "reset engine port": Kind("host", (1, 6), 1),
    "kill node": Kind("node", (0, 0), 3),
    "kill engine": Kind("provider", (0, 0), 3),
    "kill edge": Kind("edge", (0, 0), 2),
    "kill control": Kind("control", (0, 0), 1),
    "drain node": Kind("node", (1, 8), 2),
    "resize provider": Kind("provider", (1, 10), 4),
}


def plan(seed: int, seconds: float, kinds: Mapping[str, Kind], targets: Mapping[str, Sequence[str]]) -> list[Fault]:
    """Faults in order of their time, none begun after `seconds` less a fifth (at most 20 s) for the end.

    They come in rounds of one to three at nearly the same time, never two of a round at one target. `targets`: what
    each word of `Kind.hits` may be.
    """
    dice = random.Random(seed)
    names = list(kinds)
    weights = [kinds[name].weight for name in names]
    last = seconds - min(20.0, seconds / 5)
    found: list[Fault] = []
    start, rounds = QUIET_START_S, 0
    while start <= last:
        end, hit = start, set()
        for _ in range(dice.randint(1, MOST_AT_ONCE)):
            name = dice.choices(names, weights)[0]
            kind = kinds[name]
            target = dice.choice(list(targets[kind.hits]))
            at, lasts, share = start + dice.uniform(0, ROUND_SPREAD_S), dice.uniform(*kind.seconds), dice.random()
            if target in hit or at > last:
                continue
            hit.add(target)
            found.append(Fault(0, round(at, 2), name, target, round(lasts, 2), round(share, 4)))
            end = max(end, at + lasts)
        rounds += 1
        start = end + dice.uniform(*(SHORT_PAUSE_S if rounds % 4 else LONG_PAUSE_S))
    found.sort(key=lambda fault: fault.at)
    return [
        Fault(number, one.at, one.kind, one.target, one.seconds, one.share) for number, one in enumerate(found, start=1)
    ]


def replay(seed: int, minutes: float, *, lab: bool) -> str:
    """The command that runs the same schedule again."""
    return f"python -m tests.bench.chaos --minutes {minutes:g} --seed {seed}{' --lab' if lab else ''}"
