"""An Edge's admin port in one thread: it tells the status that it was given, takes leases and answers checks."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

TOKEN = "a-token-of-the-test"


class AdminPort:
    """What it was asked is in `asked`; `status` may be changed at any time; `answers` are the next checks' codes."""

    def __init__(self, url: str, token_file: Path) -> None:
        self.url = url
        self.token_file = token_file
        self.status: dict[str, Any] = {"nodes": [], "provider_snapshots": []}
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: list[int] = []
        self.looked = 0
        self.after_looks: dict[int, dict[str, Any]] = {}

    def looks(self) -> dict[str, Any]:
        """The status, which `after_looks` may change at the n-th look."""
        self.looked += 1
        self.status = self.after_looks.get(self.looked, self.status)
        return self.status


def node(node_id: str, *, direct: int = 0, **more: Any) -> dict[str, Any]:
    """A node of a status: connected, of release r1."""
    plain = {"id": node_id, "connected": True, "state": "connected", "release_id": "r1", "instance_id": "i1"}
    return {**plain, "direct": {"in_flight": direct}, **more}


def provider(name: str, node_id: str, **more: Any) -> dict[str, Any]:
    """A provider of a status: ready, idle, for the model `chat`."""
    plain = {"provider_id": name, "node_id": node_id, "state": "ready", "reason": None, "in_flight": 0}
    return {**plain, "models": ["chat"], **more}


@contextmanager
def admin_port(folder: Path) -> Iterator[AdminPort]:
    """A port of the system's choice, with the token's file in `folder`."""
    token_file = folder / "admin.token"
    token_file.write_text(f"{TOKEN}\n", encoding="utf-8")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, port.looks())

        def do_PUT(self) -> None:
            self._change()

        def do_DELETE(self) -> None:
            self._change()

        def do_POST(self) -> None:
            self._note()
            code = port.answers.pop(0) if port.answers else 200
            self._say(code, {"choices": [{}]} if code == 200 else {"error": {"message": "not now"}})

        def _change(self) -> None:
            self._note()
            good = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            self._say(200 if good else 401, {} if good else {"error": {"message": "no token"}})

        def _note(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            port.asked.append((self.command, self.path, json.loads(body) if body else None))

        def _say(self, code: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = AdminPort(f"http://127.0.0.1:{server.server_port}", token_file)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield port
        finally:
            server.shutdown()
            thread.join()
