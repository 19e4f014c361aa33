"""iop_release.ask: what answers at a URL."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from iop_release.ask import ask

BODIES = {"/status": (200, b'{"edge": {"id": "e"}}'), "/text": (200, b"fine"), "/gone": (404, b"{}")}


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        code, body = BODIES[self.path]
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def base() -> Iterator[str]:
    """A server with the bodies above."""
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_status_and_body(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is read, another body is None, a refusal keeps its status; a proxy of the user is not asked."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    assert ask(f"{base}/status") == {"status": 200, "json": {"edge": {"id": "e"}}, "reason": ""}
    assert ask(f"{base}/text") == {"status": 200, "json": None, "reason": ""}
    assert (ask(f"{base}/gone")["status"], ask(f"{base}/gone")["json"]) == (404, None)


def test_nothing_answers() -> None:
    """A closed port and a URL that is none are status 0 with the reason, not an error."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        found = ask(f"http://127.0.0.1:{taken.getsockname()[1]}/status")
    assert (found["status"], found["json"]) == (0, None)
    assert "refused" in found["reason"]
    assert ask("nothing")["status"] == 0
