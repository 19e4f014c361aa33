"""`edge config refresh` and the Control Plane against a living cluster."""

import asyncio
import json
import os
import signal
import sys
from typing import Any

from iop.admin.client import AdminClient, ControlClient, RefreshAnswer, ServerEvent
from tests.cluster.harness import DEADLINE, ROOT, Cluster
from tests.cluster.load import burst


async def refresh(made: Cluster, mode: str, *more: str) -> tuple[int, dict[str, Any]]:
    """Run the command on the cluster's edge.yaml; return its exit code and its JSON (empty when it printed none)."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "iop.commands.edge", "--config", str(made.folder / "edge.yaml"),
        "config", "refresh", "--mode", mode, "--addr", made.processes["edge"].ready["admin"], "--json", *more,
        env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")}, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(child.communicate(), DEADLINE)
    assert child.returncode is not None
    return child.returncode, json.loads(out) if out else {}


async def test_capacity_changes_under_load_lose_nothing(three_nodes: Cluster) -> None:
    """Shrinking lets holders finish and shows the debt, growing serves waiters; every request is answered."""
    load = asyncio.ensure_future(burst(three_nodes, 16, "chat", tokens=200))
    await three_nodes.status_where(lambda s: s["totals"]["queued"] == 6, "a full pool and six in line")
    plan, shrunk, small, grown = await asyncio.to_thread(_shrink_and_grow, three_nodes)

    assert [change["over_by"] for change in plan.body["changes"]] == [3]
    assert [node["acknowledged"] for node in shrunk.body["nodes"]] == [True, True, True]
    assert (shrunk.body["new_generation"], grown.body["new_generation"]) == (2, 3)
    assert (small["config"]["generation"], small["totals"]["capacity"]) == (2, 7)
    assert all(answer.ok for answer in await load)
    assert (await three_nodes.calm())["totals"]["capacity"] == 10


def _shrink_and_grow(made: Cluster) -> tuple[RefreshAnswer, RefreshAnswer, dict[str, Any], RefreshAnswer]:
    path = made.folder / "edge.yaml"
    token = (made.folder / "admin.token").read_text().strip()
    four = path.read_text()
    one = four.replace("capacity: 4", "capacity: 1")
    with AdminClient(f"http://{made.processes['edge'].ready['admin']}", token=token, timeout=DEADLINE) as edge:
        plan = edge.refresh("dry-run", one, str(path))
        shrunk = edge.refresh("apply", one, str(path))
        small = edge.status()
        return plan, shrunk, small, edge.refresh("apply", four, str(path), expect_generation=2)


async def test_every_exit_code_of_a_refresh(three_nodes: Cluster) -> None:
    """0 nothing to do, 1 findings or generation, 3 restart, 4 token, 5 a node that does not acknowledge."""
    assert await _codes(three_nodes, ["dry-run"], ["apply"]) == [0, 0]
    assert await _codes(three_nodes, ["apply", "--expect-generation", "9"]) == [1]
    path = three_nodes.folder / "edge.yaml"
    good = path.read_text()
    (three_nodes.folder / "wrong").write_text("wrong")
    assert await _codes(three_nodes, ["dry-run", "--token-file", str(three_nodes.folder / "wrong")]) == [4]
    path.write_text(good.replace("id: edge-test", "id: edge-other"))
    assert await _codes(three_nodes, ["dry-run"], ["apply"]) == [3, 3]
    path.write_text(good.replace("models:", "model:"))
    assert await _codes(three_nodes, ["dry-run"], ["apply"]) == [1, 1]
    status = await three_nodes.status()
    assert status["config"]["generation"] == 1
    assert str(path) in status["config"]["last_error"]

    path.write_text(good.replace("capacity: 4", "capacity: 2"))
    node = three_nodes.processes["gx10-vllm-node"]
    node.signal(signal.SIGSTOP)
    try:
        code, body = await refresh(three_nodes, "apply", "--timeout", "1s")
    finally:
        node.signal(signal.SIGCONT)
    assert code == 5
    assert [entry["id"] for entry in body["nodes"] if not entry["acknowledged"]] == ["gx10-vllm-node"]
    await three_nodes.all_ready()
    await three_nodes.calm()


async def _codes(made: Cluster, *calls: list[str]) -> list[int]:
    return [(await refresh(made, *call))[0] for call in calls]


async def test_sighup_and_a_restart_with_another_file(three_nodes: Cluster) -> None:
    """The Edge process takes a changed file over on SIGHUP, keeps its config when the file is bad, and warns after a
    restart with another file than it applied last.
    """
    path, edge = three_nodes.folder / "edge.yaml", three_nodes.processes["edge"]
    good = path.read_text()
    load = asyncio.ensure_future(burst(three_nodes, 12, "chat", tokens=100))
    path.write_text(good.replace("capacity: 4", "capacity: 2"))
    edge.signal(signal.SIGHUP)
    await three_nodes.status_where(lambda s: s["totals"]["capacity"] == 8, "the new capacity")
    path.write_text(good.replace("capacity: 4", "capcity: 4"))
    edge.signal(signal.SIGHUP)
    status = await three_nodes.status_where(lambda s: s["config"]["last_error"], "the refusal")
    assert status["config"]["last_error"].startswith(f"{path}:")
    assert status["config"]["generation"] == 2
    assert "did you mean capacity?" in edge.log.read_text()
    assert all(answer.ok for answer in await load)

    three_nodes.write_edge_config()  # with the ports that the nodes know
    assert await edge.stop() == 0
    await three_nodes.start_edge()
    assert f"{path} is not what was last applied" in three_nodes.processes["edge"].log.read_text()
    await three_nodes.all_ready()
    await three_nodes.calm()


async def test_the_control_plane_shows_and_relays_what_the_edge_says(three_nodes: Cluster) -> None:
    """Its status is the Edge's with `control`; its events are the Edge's, resumable by id."""
    assert all(answer.ok for answer in await burst(three_nodes, 11, "responses", tokens=5))
    await three_nodes.calm()
    told = await asyncio.to_thread(_read_both, three_nodes)
    assert told["status"]["control"]["stale"] is False
    assert told["status"]["totals"] == (await three_nodes.status())["totals"]
    assert [event.id for event in told["admin"]] == list(range(1, len(told["admin"]) + 1))
    assert told["control"] == told["admin"][3:]
    await three_nodes.processes["edge"].kill()
    stale = await asyncio.to_thread(_control_status, three_nodes)
    assert stale["control"]["stale"] is True
    assert stale["totals"] == told["status"]["totals"]


def _control_status(made: Cluster) -> dict[str, Any]:
    with ControlClient(f"http://{made.processes['control'].ready['control']}") as client:
        return client.status("edge-test")


def _read_both(made: Cluster) -> dict[str, Any]:
    with (
        AdminClient(f"http://{made.processes['edge'].ready['admin']}") as edge,
        ControlClient(f"http://{made.processes['control'].ready['control']}") as control,
    ):
        last = edge.status()["events"]["last_seq"]
        with edge.events(0) as direct, control.events("edge-test", 3) as relayed:
            return {
                "status": control.status("edge-test"),
                "admin": _until(direct, last),
                "control": _until(relayed, last),
            }


def _until(events: Any, last: int) -> list[ServerEvent]:
    got = []
    for event in events:
        got.append(event)
        if event.id == last:
            return got
    raise AssertionError(f"the stream ended before {last}: {got}")
