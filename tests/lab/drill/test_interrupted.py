"""B67: a deploy that ends in the middle of a roll - Ctrl-C, kill -9, the host lost - and the run that repairs it.

Each phase is held open by what really makes it long, so that the interruption hits it on any machine: work on the node,
a node that does not end, a start that waits.
"""

import signal
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.lab.drill.case import GX10, NODES_ONLY, Begun, Drill, until

drill_only = pytest.mark.drill
SIGNALS = {"ctrl-c": signal.SIGINT, "kill-9": signal.SIGKILL}


# one of them is worth its seconds in `make test-lab` too
CASES = [
    pytest.param(phase, how, id=f"{phase}-{how}", marks=() if (phase, how) == ("switched", "kill-9") else drill_only)
    for phase in ("drained", "stopped", "switched", "started", "gated")
    for how in SIGNALS
]


@pytest.mark.parametrize(("phase", "how"), CASES)
def test_a_roll_ends_while_its_node_is(drill: Drill, phase: str, how: str) -> None:
    """Whatever the phase: the run ends, nobody else is touched, and the next run leaves one whole fleet."""
    drill.forget("gx10")
    with _held(drill, phase), drill.begin(*GX10) as begun:
        _reach(drill, begun, phase)
        begun.interrupt(SIGNALS[how])
        run = begun.end()
        if how == "kill-9":  # the host loses its power: not even the helper there goes on
            for pid in drill.helper("gx10"):
                drill.lab.exec("gx10", "kill", "-9", str(pid))
    drill.said = f"{how} while gx10's node was {phase}: the next run finished the roll"

    assert run.code != 0
    if how == "ctrl-c":
        assert "interrupted. The next run repairs" in run.text
        assert run.report["outcome"] == "interrupted"
    drill.repaired(*GX10)
    drill.untouched("gx10.node")


@drill_only
def test_host_lost_in_the_roll(drill: Drill) -> None:
    """The host goes away after its drain: named, the rest is untouched, its drain ends by itself."""
    drill.forget("gx10", "onexplayer")
    sibling = drill.node("onexplayer")["instance_id"]
    with drill.begin(*NODES_ONLY) as begun:
        begun.until("TASK [nodes : Drain, and wait until nothing runs")
        drill.lab.cut("gx10")
        run = begun.end()
    drill.said = "gx10 lost after its drain: named, nobody else rolled; brought back and repaired"

    assert run.code != 0
    text = drill.told(run)
    assert "gx10 was lost while its node was replaced" in text
    assert "gx10 is out of reach, so its state is not known. Its drain ends by itself" in text
    assert "next: bring the host back, then run the deploy again" in text
    drill.lab.restore("gx10")
    until(lambda: drill.lab.ssh("gx10", "true").code == 0)
    drill.untouched("gx10.node", "onexplayer.node")  # whose records this test took away
    assert drill.node("onexplayer")["instance_id"] == sibling
    drill.repaired(*NODES_ONLY)


def _held(drill: Drill, phase: str) -> AbstractContextManager[object]:
    """Keep the phase from passing by; it is let go of at the end."""
    key = {"stopped": "ExecStop", "switched": "ExecStartPre"}.get(phase)
    return drill.slow(key) if key else nullcontext()


def _reach(drill: Drill, begun: Begun, phase: str) -> None:
    """Wait for the phase. Ansible names a task when it has the task's first result, so each text is the step before."""
    states = {"stopped": "deactivating", "switched": "activating"}
    if phase in states:
        until(lambda: drill.unit_state() == states[phase])
        return
    steps = {
        "drained": "Drain, and wait until nothing runs",
        "started": "The node from release",
        "gated": "The Edge sees this node with the wanted release",
    }
    begun.until(f"TASK [nodes : {steps[phase]}")
