"""A small HTTP server of this process, in a thread of its own."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing; a subclass answers each GET."""

    def do_GET(self) -> None:
        """Answer."""
        self.answer()

    def answer(self) -> None:
        """Say something."""
        raise NotImplementedError

    def say(self, status: int, body: bytes = b"") -> None:
        """The whole answer."""
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served_by(handler: type[Quiet]) -> Iterator[int]:
    """The port on which this handler answers, on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
