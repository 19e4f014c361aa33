"""A host or a port that cannot be had: the part of the drill that `make test-lab` runs too."""

import pytest

from tests.lab.drill.case import NODES_ONLY, Drill, until

LISTEN = "import socket,sys,time; s=socket.create_server(('127.0.0.1',int(sys.argv[1]))); time.sleep(3600)"


def test_unreachable_at_start(drill: Drill) -> None:
    """B67: a host that is down stops the run before anything is changed; it is named, with what to do."""
    drill.lab.cut("gx10")
    text = drill.refused(*NODES_ONLY)
    drill.said = "gx10 is off the network: named, nothing was changed"

    assert "ssh to gx10 (10.77.0.12) failed" in text
    assert "next: Try: ssh -F" in text
    drill.lab.restore("gx10")
    until(lambda: drill.node("gx10")["state"] == "connected")
    drill.untouched()
    drill.whole()


@pytest.mark.parametrize("label", [pytest.param("stranger", marks=pytest.mark.drill), "mac-mlx-vllm-node"])
def test_somebody_on_our_port(drill: Drill, label: str) -> None:
    """A process that has a port of ours is named and left alone; the earlier set-up is recognised."""
    unit, port = "iop-engine-gx10-vllm.service", 18102
    assert drill.lab.exec("gx10", "systemctl", "stop", unit).code == 0
    there = ["systemd-run", "--quiet", "--unit=stranger", "--uid=lab", "python3", "-c", LISTEN, str(port), label]
    assert drill.lab.exec("gx10", *there).code == 0
    try:
        until(lambda: str(port) in drill.lab.exec("gx10", "ss", "-ltn").out)
        pid = drill.lab.exec("gx10", "systemctl", "show", "--value", "-p", "MainPID", "stranger").out.strip()
        text = drill.refused(*NODES_ONLY)
        assert drill.lab.exec("gx10", "systemctl", "is-active", "stranger").out.strip() == "active"
    finally:
        drill.lab.exec("gx10", "systemctl", "stop", "stranger")
    earlier = label != "stranger"
    drill.said = f"{'the earlier set-up' if earlier else 'a stranger'} has port {port}: named, left alone"

    assert f"port {port} is taken by pid {pid}" in text
    assert ("next: see docs/how-to/migrate.md" in text) == earlier
    assert (f"next: stop it (kill {pid})" in text) != earlier
    drill.untouched("gx10-vllm.engine")
    drill.repaired("-e", "run_tests=false", "--tags", "engines,nodes", "--limit", "gx10")
