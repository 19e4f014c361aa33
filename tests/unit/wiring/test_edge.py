"""Building the Edge: tokens, ports, the ready line."""

import socket
import stat
from pathlib import Path

import pytest
import yaml

from iop.config.load import load_edge
from iop.transport.listening import PortBusy
from iop.wiring.edge import EdgeService, admin_token
from tests.fakes.edge_under_test import config, edge_under_test


def _loaded(folder: Path, **changes: object):
    path = folder / "edge.yaml"
    path.write_text(yaml.safe_dump(config(**changes)))
    return load_edge(path)


def test_an_admin_token_is_made_once_and_only_for_this_user(tmp_path: Path) -> None:
    """Without a configured file `admin.token` (0600) appears beside the config and stays the same."""
    made = _loaded(tmp_path).config
    assert made is not None
    token = admin_token(made, tmp_path)
    file = tmp_path / "admin.token"

    assert len(token) > 30
    assert admin_token(made, tmp_path) == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir() if "admin" in p.name] == ["admin.token"]


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    """An empty token would be everybody's."""
    (tmp_path / "admin.token").write_text("\n")
    made = _loaded(tmp_path).config
    assert made is not None
    with pytest.raises(ValueError, match="empty"):
        admin_token(made, tmp_path)


async def test_the_ready_line_tells_the_real_ports(tmp_path: Path) -> None:
    """Port 0 is any free one; the line tells which."""
    async with edge_under_test(tmp_path) as edge:
        assert edge.ready["edge"] == "edge-test"
        assert edge.ready["release"] == "test"
        ports = {int(edge.ready[name].rsplit(":", 1)[1]) for name in ("openai", "nodes", "admin")}

        assert len(ports) == 3
        assert 0 not in ports


@pytest.mark.parametrize("which", ["openai", "nodes", "admin"])
async def test_a_busy_port_is_named_and_nothing_stays_open(tmp_path: Path, which: str) -> None:
    """Whichever of the three ports is taken: PortBusy with its address, and the others are free again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listen = {**config()["listen"], which: f"127.0.0.1:{port}"}
        service = EdgeService(_loaded(tmp_path, listen=listen), release_id="test")
        with pytest.raises(PortBusy, match=str(port)):
            await service.start()
        await service.stop()


def test_a_config_with_errors_builds_nothing(tmp_path: Path) -> None:
    """The caller must have checked."""
    loaded = _loaded(tmp_path, nodes=[{"id": "n1", "providers": [{"id": "p"}]}])
    with pytest.raises(ValueError, match="errors"):
        EdgeService(loaded, release_id="test")
