"""What a node says is cut to what can be kept."""

import pytest

from iop.link import messages as m
from iop.link.bounds import MAX_DETAIL, MAX_ENTRIES, MAX_NAME, MAX_NUMBER, MAX_REASON, bounded

LONG = "x" * 100_000
WORK = m.RunningWork(run=1, request_id="r", adapter="a")
AGENT = m.TargetInfo(name="t", kind="codex", ready=False, reason="log in")


@pytest.mark.parametrize(
    "message",
    [
        m.Hello(protocol=1, node_id="n", instance_id="i", version="1.0", running=(WORK,)),
        m.Ready(generation=1, adapters=(m.AdapterInfo(name="cli", type="cli", max_concurrency=0, targets=(AGENT,)),)),
        m.ProviderHealth(provider_id="p", up=False, reason="status 503"),
        m.End(run=1, outcome="failed", failure="agent_failed", detail="its last line: ünïcode"),
        m.End(run=1, outcome="completed"),
        m.Head(run=1, status=200),
        m.Ping(n=1),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_what_honest_nodes_say_is_left_as_it_is(message):
    """Nothing of an ordinary message changes."""
    assert bounded(message) == message


def test_words_have_a_length_and_steer_no_terminal():
    """Names, versions, reasons and details are cut; control characters go where a person or a log would meet them."""
    hello = bounded(
        m.Hello(
            protocol=1, node_id="n", instance_id=LONG, version="1\n\x1b[31m", release_id=LONG, platform=LONG,
            running=(m.RunningWork(run=1, request_id=LONG, adapter="a", provider_id="p"),),
        )
    )  # fmt: skip
    assert (len(hello.instance_id), len(hello.release_id), len(hello.platform)) == (MAX_NAME,) * 3
    assert (hello.version, len(hello.running[0].request_id)) == ("1??[31m", MAX_NAME)
    health = bounded(m.ProviderHealth(provider_id="p", up=False, reason=LONG))
    assert len(health.reason) == MAX_REASON
    assert len(bounded(m.End(run=1, outcome="failed", detail=LONG)).detail) == MAX_DETAIL


def test_a_failure_that_does_not_exist_is_a_broken_answer():
    """Events and counters know the kinds of the wire page, and no other."""
    assert bounded(m.End(run=1, outcome="failed", failure=LONG)).failure == "broken"
    assert bounded(m.End(run=1, outcome="failed", failure=m.LINK_LOST)).failure == "broken"
    assert {bounded(m.End(run=1, outcome="failed", failure=each)).failure for each in m.FAILURES} == set(m.FAILURES)


def test_lists_and_numbers_have_an_end():
    """Adapters, agents and the capacities they claim."""
    target = m.TargetInfo(name=LONG, kind=LONG, ready=True, reason=LONG)
    info = m.AdapterInfo(name=LONG, type="cli", max_concurrency=10**300, targets=(target,) * 1000)
    negative = m.AdapterInfo(name="e", type="openai_compat", max_concurrency=-5)
    ready = bounded(m.Ready(generation=1, adapters=(info, negative) * 500))
    assert len(ready.adapters) == MAX_ENTRIES
    assert [len(each.targets) for each in ready.adapters[:3]] == [MAX_ENTRIES, 0, 0]
    assert [ready.adapters[0].max_concurrency, ready.adapters[1].max_concurrency] == [MAX_NUMBER, 0]
    cut = ready.adapters[0].targets[0]
    assert (len(cut.name), len(cut.kind), len(cut.reason)) == (MAX_NAME, MAX_NAME, MAX_REASON)
