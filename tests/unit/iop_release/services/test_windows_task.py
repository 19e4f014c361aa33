"""iop_release.services.windows_task: tasks tell no pid, the node's own port stops it, the rest is killed (B65)."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.processes import Process
from iop_release.services.windows_task import WindowsTask
from tests.fakes.service_rigs import DEAF, WindowsRig


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowsRig]:
    """A host with registered tasks."""
    for name in ("PATH", "FAKE_TASKS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    made = WindowsRig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A node's status port: its address, and the credentials that came with each POST /stop."""
    tokens: list[str] = []

    class Port(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            tokens.append(f"{self.path} {self.headers['Authorization']}")
            body = b'{"stopping": true}'
            self.send_response(202)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", tokens
        server.shutdown()
        thread.join()


def test_a_node_is_asked_before_it_is_ended(rig: WindowsRig, asked: tuple[str, list[str]]) -> None:
    """By the address of its last ready line and the token in its state folder; what stays then is killed."""
    address, tokens = asked
    (rig.root / "shared" / "state" / "n1.stop-token").write_text("secret\n", encoding="ascii")
    ready = f"print('ready node=n1 status=127.0.0.1:1'); print('ready node=n1 status={address}', flush=True); "
    rig.manager.start(rig.service(code=ready + DEAF), rig.log())
    pid = rig.ours()[0]

    rig.manager.stop("gx10.node")

    assert tokens == ["/stop Bearer secret"]
    assert rig.ours() == []
    assert rig.calls()[-2:] == ["schtasks /End /TN iop-node", f"taskkill /PID {pid} /T /F"]


def test_a_node_that_cannot_be_asked_is_ended(rig: WindowsRig) -> None:
    """No token, or nobody on that port: the task is ended all the same."""
    rig.manager.start(rig.service(code=f"print('ready node=n1 status=127.0.0.1:1', flush=True); {DEAF}"), rig.log())
    rig.manager.stop("gx10.node")
    assert rig.ours() == []


def test_tasks_that_differ_ask_for_an_administrator(rig: WindowsRig) -> None:
    """Not registered, or registered from another definition."""
    task = rig.state / "iop-node.xml"
    task.write_text(task.read_text(encoding="utf-8").replace("; definition ", "; definition 0"), encoding="utf-8")
    assert rig.manager.obstacles([rig.service()]) == ["the task iop-node differs from what this release wants"]
    task.unlink()
    assert rig.manager.obstacles([rig.service()]) == ["the task iop-node is not registered"]
    with pytest.raises(ReleaseError, match=r"(?s)cannot be run \(exit code 1\).*cannot find the file"):
        rig.manager.start(rig.service(), rig.log())


def test_the_real_interpreter_counts(rig: WindowsRig) -> None:
    """A virtual environment's python.exe starts the real one with the same arguments: that one is the service."""
    service = rig.service()
    table = [Process(20, 10, service.argv), Process(10, 1, service.argv), Process(30, 1, ("python", "-m", "other"))]
    manager = WindowsTask(rig.root, table=lambda: table)
    manager._launchers.write(service)

    assert manager.running()["gx10.node"].pid == 20
    assert [one.pid for one in manager._family("gx10.node")] == [10, 20]
    table.clear()
    assert manager.running()["gx10.node"].state == "stopped"


def test_a_host_without_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No schtasks: the error points at the inventory."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match=r"(?s)schtasks is not on this host.*service_manager"):
        WindowsTask(tmp_path).ensure()
