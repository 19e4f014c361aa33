"""SIGHUP reads the last applied file again."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from iop.link.messages import Config
from iop.wiring.hangup import ReloadOnHangup
from tests.fakes.edge_under_test import EdgeUnderTest, config, edge_under_test
from tests.fakes.until import until


def write(folder: Path, **changes: Any) -> None:
    """Write the file that the Edge started from."""
    (folder / "edge.yaml").write_text(yaml.safe_dump(config(**changes)), encoding="utf-8")


async def hang_up(edge: EdgeUnderTest, said: str, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """Send the signal to this process and wait for the log line; return the status of the config."""
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: said in caplog.text)
    told: dict[str, Any] = edge.status()["config"]
    return told


async def test_a_changed_file_is_applied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next generation runs, and a connected node gets it."""
    caplog.set_level("INFO")
    async with edge_under_test(tmp_path) as edge:
        node = await edge.node()
        write(tmp_path, wedge_after="90s")
        os.kill(os.getpid(), signal.SIGHUP)
        assert (await node.expect(Config, 2)).generation == 2
        assert edge.core.config.wedge_after == 90.0
        await node.close()
    assert "applied" in caplog.text


async def test_the_same_file_is_nothing_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No new generation."""
    caplog.set_level("INFO")
    async with edge_under_test(tmp_path) as edge:
        assert (await hang_up(edge, "nothing to do (generation 1)", caplog))["generation"] == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"wedge_aftr": "90s"}, "edge.yaml:"),
        ({"edge": {"id": "edge-other"}}, "restart required for edge.id"),
    ],
    ids=["findings", "restart"],
)
async def test_a_file_that_cannot_be_applied_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], told: str
) -> None:
    """The log and the status say why; the old generation keeps serving; a good file clears it."""
    caplog.set_level("INFO")
    async with edge_under_test(tmp_path) as edge:
        write(tmp_path, **changes)
        facts = await hang_up(edge, "generation 1 keeps serving", caplog)
        assert facts["generation"] == 1
        assert told in facts["last_error"]
        assert str(tmp_path / "edge.yaml") in facts["last_error"]
        write(tmp_path)
        assert (await hang_up(edge, "nothing to do", caplog))["last_error"] is None


async def test_a_file_that_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A deleted file is refused like a bad one."""
    async with edge_under_test(tmp_path) as edge:
        (tmp_path / "edge.yaml").unlink()
        facts = await hang_up(edge, "keeps serving", caplog)
        assert facts["generation"] == 1
        assert "unreadable_file" in facts["last_error"]


async def test_a_stopping_edge_takes_no_config(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From SIGTERM on the signal does nothing."""
    caplog.set_level("INFO")
    async with edge_under_test(tmp_path) as edge:
        edge.core.shutting_down = True
        write(tmp_path, wedge_after="90s")
        assert (await hang_up(edge, "SIGHUP is ignored", caplog))["generation"] == 1


async def test_a_system_without_the_signal_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no SIGHUP."""
    monkeypatch.delattr(signal, "SIGHUP")
    async with edge_under_test(tmp_path) as edge:
        assert isinstance(edge.service._hangup, ReloadOnHangup)
        assert edge.status()["config"]["generation"] == 1
