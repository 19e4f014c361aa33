"""B67: a deploy that ends in the middle of a roll - Ctrl-C, kill -9, the host lost - and the run that repairs it.

Each phase is held open by what really makes it long, so that the interruption hits it on any machine: work on the node,
a node that does not end, a start that waits.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.drill.case import GX10, NODES_ONLY, Begun, Drill, until

drill_only = pytest.mark.drill
SIGNALS = {"ctrl-c": signal.SIGINT, "kill-9": signal.SIGKILL}
UNIT = "iop-node.service"
SLOW = f"/run/systemd/system/{UNIT}.d"
SLOW_TEXT = "[Service]\nExecStartPre=/bin/sh -c 'until [ -e /run/go ]; do sleep 0.1; done'\n"


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
    drill.untouched("gx10.node")
    drill.repaired(*NODES_ONLY)


@contextmanager
def _held(drill: Drill, phase: str) -> Iterator[None]:
    """Keep the phase from passing by; let go of it at the end."""
    gx10 = ("gx10",)
    if phase == "stopped":
        _signal_node(drill, "STOP")
    if phase == "switched":
        script = f'mkdir -p {SLOW} && printf %s "$1" >{SLOW}/slow.conf && systemctl daemon-reload'
        drill.lab.exec(*gx10, "sh", "-c", script, "sh", SLOW_TEXT)
    try:
        yield
    finally:
        if phase == "stopped":
            _signal_node(drill, "CONT")
        if phase == "switched":
            drill.lab.exec(
                *gx10, "sh", "-c", f"touch /run/go; rm -r {SLOW}; systemctl daemon-reload; sleep 1; rm /run/go"
            )


def _reach(drill: Drill, begun: Begun, phase: str) -> None:
    """Wait for the phase. Ansible names a task when it has the task's first result, so each text is the step before."""
    states = {"stopped": "deactivating", "switched": "activating"}
    if phase in states:
        until(lambda: _state(drill) == states[phase])
        return
    steps = {
        "drained": "Drain, and wait until nothing runs",
        "started": "The node from release",
        "gated": "The Edge sees this node with the wanted release",
    }
    begun.until(f"TASK [nodes : {steps[phase]}")


def _state(drill: Drill) -> str:
    return drill.lab.exec("gx10", "systemctl", "show", "--value", "-p", "ActiveState", UNIT).out.strip()


def _signal_node(drill: Drill, name: str) -> None:
    """A signal to the node that ran before the case."""
    drill.lab.exec("gx10", "kill", f"-{name}", str(drill.before["gx10.node"]))
