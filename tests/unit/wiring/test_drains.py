"""Drain leases that outlive the Edge."""

import json
from pathlib import Path
from typing import Any

import pytest

from iop.edge.admin_routes import DrainAsk
from iop.wiring.drains import DrainNote
from tests.fakes.edge_under_test import EdgeUnderTest, config, edge_under_test

ENTRY: dict[str, Any] = config()["nodes"][0]
TWO = {"nodes": [ENTRY, {"id": "n2"}]}


def _drains(edge: EdgeUnderTest) -> dict[str, Any]:
    return {node["id"]: node["drain"] for node in edge.status()["nodes"]}


def _noted(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "edge.yaml.drains").read_text())
    return found


async def test_a_lease_outlives_the_edge_and_one_that_was_ended_does_not(tmp_path: Path) -> None:
    """The next start has what is left of it, and its reason; a node that was put back takes work."""
    async with edge_under_test(tmp_path, **TWO) as edge:
        edge.core.drain("n1", DrainAsk(3600.0, "anna", "new disk"))
        edge.core.drain("n2", DrainAsk(3600.0, None, None))
        edge.core.undrain("n2")
        assert set(_noted(tmp_path)["drains"]) == {"n1"}
    async with edge_under_test(tmp_path, **TWO) as edge:
        found = _drains(edge)
        assert found["n1"]["reason"] == "new disk (by anna)"
        assert 3000 < found["n1"]["left_s"] < 3600
        assert found["n2"] is None
        edge.core.undrain("n1")
    async with edge_under_test(tmp_path, **TWO) as edge:
        assert _drains(edge) == {"n1": None, "n2": None}


@pytest.mark.parametrize(
    ("later", "left"),
    [(40.0, 60.0), (100.0, None), (1e6, None), (-7200.0, 100.0)],
    ids=["part of it is over", "just over", "long over", "the clock was set back"],
)
async def test_time_passes_while_no_edge_runs(tmp_path: Path, later: float, left: float | None) -> None:
    """What is left is what the clock says, and never more than there was."""
    async with edge_under_test(tmp_path) as edge:
        (tmp_path / "edge.yaml.drains").write_text(
            json.dumps({"at": 1000.0, "drains": {"n1": {"left_s": 100.0, "reason": "r"}}})
        )
        DrainNote(tmp_path / "edge.yaml", edge.core, clock=lambda: 1000.0 + later).keep()
        found = _drains(edge)["n1"]
    assert found == (None if left is None else {"reason": "r", "left_s": pytest.approx(left, abs=5)})


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"at": "noon", "drains": {}}',
        '{"at": 1, "drains": [1]}',
        '{"at": 1e12, "drains": {"n1": {"left_s": 1e13}}}',
        '{"at": 1e12, "drains": {"n1": {"left_s": Infinity, "reason": null}}}',
        '{"at": 1e12, "drains": {"n1": {"left_s": 1e13, "reason": 7}}}',
    ],
)
async def test_a_broken_note_drains_nobody(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """The Edge starts, says so, and every node takes work."""
    (tmp_path / "edge.yaml.drains").write_text(text)
    async with edge_under_test(tmp_path) as edge:
        assert _drains(edge) == {"n1": None}
    assert "edge.yaml.drains cannot be read" in caplog.text


async def test_a_node_that_is_gone_from_the_config_is_forgotten(tmp_path: Path) -> None:
    """Its lease is not taken up, whoever has that id later."""
    async with edge_under_test(tmp_path, **TWO) as edge:
        edge.core.drain("n2", DrainAsk(3600.0, "anna", "sold"))
    async with edge_under_test(tmp_path) as edge:
        assert [node.id for node in edge.core.door.snapshot().nodes if node.drain_until is not None] == []
