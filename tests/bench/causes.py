"""Every request ends in an answer, or in a clear error that some fault explains."""

from tests.bench.record import Answer, Done
from tests.bench.verdict import Finding
from tests.bench.view import View

#: seconds after a fault's end in which its effects may still come: a link that is found dead, a redial, a late probe
AFTER_S = 5.0
#: errors of work under way; a fault of a provider that had it, or of the Edge, explains them
OF_PROVIDERS = frozenset({"upstream_unreachable", "upstream_broken", "upstream_timeout", "after the end"})
#: errors of those who waited for a provider to come back
OF_WAITING = frozenset({"queue_timeout", "no_provider_available"})
#: errors of the direct route: its node is away, draining, or was lost under way
OF_DIRECT = frozenset(
    {"node_offline", "node_draining", "agent_failed", "upstream_unreachable", "upstream_broken", "after the end"}
)
#: faults that nobody but a waiting client may notice: what runs is finished first, or another one does it
SOFT = frozenset(
    {"restart edge", "resize provider", "remove provider", "slow link", "kill control", "freeze control", "drain node",
     "stop node"}
)  # fmt: skip
#: soft for the pool, but the direct route has one node only
SOFT_FOR_POOL = frozenset({"drain node", "stop node"})


def unexplained(run: View) -> list[Finding]:
    """Requests without an end, wrong answers, and errors that no fault explains."""
    found = []
    for answer in run.answers:
        if answer.outcome in {"answered", "left"}:
            continue
        what = f"{answer.request_id} ({answer.kind}, {answer.route}, {answer.part}) of {answer.began:.2f} s"
        if answer.outcome in {"unfinished", "wrong"}:
            found.append(Finding("lost", answer.ended, f"{what}: {answer.outcome}: {answer.why}"))
        elif not any(_explains(run, fault, answer) for fault in run.faults):
            told = f"{answer.outcome} {answer.status} {answer.code} at {answer.provider}: {answer.why}"
            found.append(Finding("unexplained", answer.ended, f"{what}: {told}"))
    return found


def _explains(run: View, fault: Done, answer: Answer) -> bool:
    if answer.outcome in {"cut", "refused"} and answer.code is None:  # the Edge was gone: it never ends an answer so
        return fault.kind == "kill edge" and _overlap(fault, answer, AFTER_S)
    if answer.route == "direct":
        return answer.code in OF_DIRECT and _hits_agent(run, fault) and _overlap(fault, answer, run.begun.recovery_s)
    if fault.kind in SOFT:
        return False
    if answer.code in OF_WAITING:
        return _overlap(fault, answer, run.begun.recovery_s)
    if answer.code is None:  # an engine's own words
        return fault.kind == "engine answers 500" and fault.provider == answer.provider and _overlap(fault, answer, 1.0)
    if answer.code not in OF_PROVIDERS or not _overlap(fault, answer, AFTER_S):
        return False
    had = run.grants(answer.request_id) | ({answer.provider} if answer.provider else set())
    return fault in run.touching(had)


def _hits_agent(run: View, fault: Done) -> bool:
    if fault.target == "edge":
        return fault.kind not in SOFT
    return fault.node is not None and fault.node == next(iter(run.begun.nodes)) and fault.kind != "slow link"


def _overlap(fault: Done, answer: Answer, after: float) -> bool:
    return fault.began <= answer.ended and answer.began <= fault.ended + after
