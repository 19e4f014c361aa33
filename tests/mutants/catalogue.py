"""Faults that the admission machine must not have: each is one small change of its source that a test must notice."""

from dataclasses import dataclass

DOMAIN = "runtime/iop/domain/"


@dataclass(frozen=True)
class Mutant:
    """`before` stands exactly once in `file`; with `after` in its place the machine has the fault called `name`."""

    name: str
    file: str
    before: str
    after: str


MUTANTS = (
    Mutant(
        "the slot is free at the first byte",
        DOMAIN + "admission.py",
        "if held is not None and held.provider.silence.heard(now):\n",
        "if held is not None:\n            self._pool.close(held, Outcome.COMPLETED, None, now)\n",
    ),
    Mutant(
        "a freed slot waits for a newcomer",
        DOMAIN + "admission.py",
        "        self._pool.dispatch([held.provider], now)\n",
        "",
    ),
    Mutant(
        "the latest waiter goes first",
        DOMAIN + "line.py",
        "head.request.number >= best.request.number",
        "head.request.number <= best.request.number",
    ),
    Mutant("a slot is not given back", DOMAIN + "fleet.py", "        del self.leases[lease_id]\n", ""),
    Mutant(
        "a shrunk provider is granted over its capacity",
        DOMAIN + "fleet.py",
        "len(self.leases) >= self.capacity",
        "len(self.leases) == self.capacity",
    ),
    Mutant(
        "the busiest provider is picked",
        DOMAIN + "fleet.py",
        "min(candidates, key=_preference)",
        "max(candidates, key=_preference)",
    ),
    Mutant(
        "the failed provider is tried again",
        DOMAIN + "returns.py",
        "        request.failures[provider_id] = failure\n",
        "        pass\n",
    ),
    Mutant(
        "a returned request goes to the end of the line",
        DOMAIN + "pool.py",
        '"returned")\n        self._about_lease',
        '"returned")\n        request.number += 1000\n        self._about_lease',
    ),
    Mutant(
        "a return starts the wait anew",
        DOMAIN + "pool.py",
        "        request.move(State.QUEUED)\n        self._release(held, now)\n",
        "        request.move(State.QUEUED)\n        request.deadline = now + self.bounds.max_wait\n"
        "        self._release(held, now)\n",
    ),
    Mutant("the loss of an older link counts", DOMAIN + "admission.py", " and epoch == node.epoch:", ":"),
    Mutant(
        "a release through an older link counts as a double one",
        DOMAIN + "pool.py",
        "node is not None and epoch < node.epoch",
        "node is not None and epoch > node.epoch",
    ),
    Mutant("work found running is not held", DOMAIN + "nodes.py", "pool.adopt(adopter, request_id, now)", "pass"),
    Mutant(
        "the grace runs while a node drains",
        DOMAIN + "fleet.py",
        "GONE = frozenset({ProviderState.OFFLINE, ProviderState.DOWN})",
        "GONE = frozenset({ProviderState.OFFLINE, ProviderState.DOWN, ProviderState.DRAINING})",
    ),
    Mutant("a busy block never ends with an end", DOMAIN + "fleet.py", "        self.busy = False\n", ""),
    Mutant("one more waits than may", DOMAIN + "admission.py", "len(pool.line) >= limit", "len(pool.line) > limit"),
    Mutant(
        "a byte does not clear a suspicion",
        DOMAIN + "silence.py",
        "suspected, self.limit = self.is_suspect, None",
        "suspected = False",
    ),
    Mutant(
        "a good probe clears a silent stream",
        DOMAIN + "silence.py",
        " and not self._silent_streams(now - self.limit):",
        ":",
    ),
    Mutant(
        "a suspect provider gets new work",
        DOMAIN + "fleet.py",
        "ProviderState.SUSPECT if self.silence.is_suspect else ProviderState.READY",
        "ProviderState.READY",
    ),
    Mutant(
        "a client that does not read makes its engine suspect",
        DOMAIN + "silence.py",
        " or self.is_suspect or self.held_up:",
        " or self.is_suspect:",
    ),
    Mutant(
        "nobody wakes up for a suspicion",
        DOMAIN + "admission.py",
        "            due.append(alarm[0])\n",
        "            pass\n",
    ),
    Mutant(
        "nobody looks whether a provider that has just become full is silent",
        DOMAIN + "pool.py",
        "        self.alarms.look(provider)\n        return held\n",
        "        return held\n",
    ),
    Mutant(
        "nobody looks whether the providers of the first in line are silent",
        DOMAIN + "pool.py",
        "        if self.line.join(request, candidates, now):\n",
        "        if not self.line.join(request, candidates, now):\n",
    ),
    Mutant(
        "an alarm that was put off is forgotten",
        DOMAIN + "alarms.py",
        "                if due is not None:\n",
        "                if due is None:\n",
    ),
    Mutant(
        "the slots are not counted anew after a refresh",
        DOMAIN + "refresh.py",
        "    pool.fleet.recount()\n    pool.routes",
        "    pool.routes",
    ),
)
