"""What is attacked: a cluster of real processes, and what must hold of it after each attack."""

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from tests.cluster.harness import Cluster, Process, eventually
from tests.fakes.hygiene import handles

#: MiB that a process may grow under attacks: caches, pools and counters of a few kinds, but not one thing per request
MAY_GROW = 48
#: handles that may come and go: connections of the Control Plane's look and of the test's own client
MAY_HOLD = 8
WITHIN = 8.0  # seconds that any one attack may take on a loaded machine
#: `ATTACK=long`: more examples, and new ones each time
LONG = os.environ.get("ATTACK") == "long"
#: inputs made up per thing that is tried
EXAMPLES = 500 if LONG else 12
#: seconds in which a second answer, that must not come, would have come
QUIET = 0.5
#: what an attacked process writes about a peer is a line now and then
MAY_LOG = 400


@dataclass(frozen=True)
class Reply:
    """One answer of those that came on a connection."""

    status: int
    headers: dict[str, str]
    body: bytes


def replies(data: bytes) -> list[Reply]:
    """Cut what a server sent into its answers; anything that is no HTTP answer fails."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        assert re.fullmatch(r"HTTP/\d\.\d \d{3} .*", lines[0]), data[:200]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split(" ")[1])
        if status == 100:
            data = rest
            continue
        size = int(headers["content-length"]) if "content-length" in headers else len(rest)
        found.append(Reply(status, headers, rest[:size]))
        data = rest[size:]
    return found


def is_whole(data: bytes) -> bool:
    """True when an answer with a length is all there, so that a server may wait for the next request for long."""
    head, _, rest = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return length is not None and len(rest) >= int(length[1])


@dataclass
class Target:
    """The cluster, its HTTP ports, and what its processes held before anybody attacked."""

    cluster: Cluster
    before: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    #: request lines for `%POST%` and `%GET%` of each port
    LINES: ClassVar[Mapping[str, tuple[bytes, bytes]]] = {
        "openai": (b"POST /v1/chat/completions", b"GET /healthz"),
        "admin": (b"POST /config/refresh", b"GET /healthz"),
        "control": (b"POST /edges", b"GET /healthz"),
        "node": (b"POST /stop", b"GET /healthz"),
    }

    @property
    def attacked(self) -> dict[str, Process]:
        """The processes that must hold."""
        return {name: each for name, each in self.cluster.processes.items() if not name.startswith("engine")}

    def address(self, port: str) -> tuple[str, int]:
        """Where a port listens; `node` is the status port of the mac node."""
        names = {"control": ("control", "control"), "node": ("mac-codex-node", "status")}
        process, word = names.get(port, ("edge", port))
        host, _, number = self.cluster.processes[process].ready[word].rpartition(":")
        return host, int(number)

    @property
    def token(self) -> str:
        """The admin token."""
        return (Path(self.cluster.folder) / "admin.token").read_text(encoding="utf-8").strip()

    async def say(self, port: str, data: bytes, *, shut: bool = False) -> bytes:
        """Send bytes on a new connection; what came until the server closed it, or had nothing more to say."""
        reader, writer = await asyncio.open_connection(*self.address(port))
        got = bytearray()
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(data)
                await writer.drain()
                if shut:
                    end_of_words(writer)
            with contextlib.suppress(ConnectionError, TimeoutError):
                while True:
                    async with asyncio.timeout(QUIET if is_whole(bytes(got)) else WITHIN):
                        if not (chunk := await reader.read(1 << 16)):
                            break
                    got += chunk
        finally:
            writer.transport.abort()
        return bytes(got)

    def config(self) -> dict[str, Any]:
        """The config that the Edge began with, as data to be changed."""
        return yaml.safe_load((self.cluster.folder / "edge.yaml").read_text(encoding="utf-8"))

    async def apply(self, config: Mapping[str, Any]) -> None:
        """Let the Edge take a config over."""
        ask = {"mode": "apply", "config": yaml.safe_dump(config), "source": str(self.cluster.folder / "edge.yaml")}
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = await self.cluster.client.post(f"{self.cluster.at('admin')}/config/refresh", json=ask, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["restart_required"] == [], answer.text

    async def started(self) -> int:
        """Requests that the engines have begun since they started."""
        return sum([(await self.cluster.stats(provider))["started"] for provider in self.cluster.capacities])

    async def remember(self) -> None:
        """Note what the processes hold, once all is warm."""
        await self._serves()
        self.before = {name: _held(each) for name, each in self.attacked.items()}

    async def unharmed(self) -> None:
        """0/0, the law, nobody dead, nothing kept, no fault and no flood in any log, and everybody is served."""
        await self._serves()
        status = await self.cluster.calm()
        assert all(node["connected"] for node in status["nodes"]), status["nodes"]
        for name, each in self.attacked.items():
            assert each.child.returncode is None, f"{name} is dead"
            assert each.faults() == []
            await eventually(lambda name=name, each=each: self._let_go(name, each), f"{name} lets go")
            memory, _, lines = (now - then for now, then in zip(_held(each), self.before[name], strict=True))
            assert memory < MAY_GROW * 1024, f"{name} grew by {memory} KiB"
            assert lines < MAY_LOG, f"{name} wrote {lines} lines"

    async def _let_go(self, name: str, each: Process) -> bool:
        return _held(each)[1] <= self.before[name][1] + MAY_HOLD

    async def _serves(self) -> None:
        body = {"model": "pool", "messages": [{"role": "user", "content": "hi"}]}
        answer = await self.cluster.client.post(f"{self.cluster.openai}/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        for port in self.LINES:
            host, number = self.address(port)
            assert (await self.cluster.client.get(f"http://{host}:{number}/healthz")).status_code == 200


def _held(process: Process) -> tuple[int, int, int]:
    """Resident KiB, handles, lines of the log."""
    status = Path(f"/proc/{process.child.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    # one line for each request is what is wanted
    lines = sum(b" request " not in line for line in process.log.read_bytes().splitlines())
    return int(found[1]) if found else 0, len(handles(process.child.pid)), lines


def end_of_words(writer: asyncio.StreamWriter) -> None:
    """Close the sending side; a peer that has closed the connection already is as good (ENOTCONN, a plain OSError)."""
    with contextlib.suppress(OSError):
        writer.write_eof()
