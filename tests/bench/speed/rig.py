"""What is measured, running: engines, peers before them, and the load tool."""

import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.speed.peers import Peer
from tests.bench.speed.place import KEY, MODEL, Command, Place
from tests.bench.speed.processes import Children, accepts, cpu_of, free_ports, memory_of
from tests.bench.speed.tools import Tools

#: capacities of the three engines where there is a limit
CAPACITIES = (4, 3, 3)
Facts = dict[str, Any]


class NotUp(Exception):
    """A peer did not start; the message is the end of its log."""


@dataclass
class Running:
    """A peer that serves. Without children (direct) it costs nothing."""

    name: str
    port: int
    children: list["subprocess.Popen[bytes]"]
    boot_s: float = 0.0

    def cpu(self) -> list[float]:
        """Seconds of CPU so far, of each of its processes with what is below it."""
        return [cpu_of(one.pid) for one in self.children]

    def memory(self) -> float:
        """MB (PSS) of all of it."""
        return memory_of([one.pid for one in self.children])


@dataclass
class Rig:
    """Three fake engines, and peers on demand. Everything ends with `close`."""

    tools: Tools
    folder: Path
    children: Children = field(init=False)
    engines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.children = Children(self.folder)

    def start_engines(self) -> None:
        """Start them and wait until they answer. Raises NotUp."""
        self.engines = free_ports(len(CAPACITIES))
        for number, port in enumerate(self.engines):
            self.children.spawn([str(self.tools.engine), str(port)], {}, f"engine{number}")
        if not _within(10, lambda: all(map(accepts, self.engines))):
            raise NotUp(f"the fake engines do not answer on {self.engines}")

    def start(self, name: str, peer: Peer, *, limited: bool, patience: float = 90.0) -> Running | None:
        """Start a peer, before one engine or, limited, before all three, and warm it up.

        None when it has no such mode. Raises NotUp.
        """
        port, *spare = free_ports(4)
        folder = self.folder / (f"{name}-limited" if limited else name)
        folder.mkdir()
        urls = [f"http://127.0.0.1:{one}" for one in (self.engines if limited else self.engines[:1])]
        commands = peer(Place(port, spare, urls, CAPACITIES if limited else None, folder))
        if commands is None:
            return None
        if not commands:
            return Running(name, self.engines[0], [])
        running = self._up(name, port, commands, patience)
        self.shoot(running, "-c", 10, "-t", 1, "-T", 10)
        self.shoot(running, "-c", 5, "-s", 1, "-n", 50, "-x", "n=20", "-T", 10)
        return running

    def _up(self, name: str, port: int, commands: Sequence[Command], patience: float) -> Running:
        began = time.monotonic()
        try:
            running = Running(name, port, [self.children.spawn(one.argv, one.env, name) for one in commands])
        except OSError as error:
            raise NotUp(f"{name}: {error}") from error
        alive = _within(patience, lambda: self._answers(running) or any(c.poll() is not None for c in running.children))
        if alive and all(one.poll() is None for one in running.children):
            running.boot_s = round(time.monotonic() - began, 2)
            return running
        self.children.stop(running.children)
        log = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        raise NotUp(f"{name} did not come up: {' | '.join(log.strip().splitlines()[-3:])[-400:]}")

    def _answers(self, running: Running) -> bool:
        return accepts(running.port) and self.shoot(running, "-c", 1, "-T", 5)["ok"] == 1

    def stop(self, running: Running) -> None:
        """End a peer."""
        self.children.stop(running.children)

    def close(self) -> None:
        """End everything."""
        self.children.stop()

    def begin(self, running: Running, *options: object) -> "subprocess.Popen[bytes]":
        """Start the load tool on a peer; `ended` waits for what it saw."""
        argv = [str(self.tools.load), "127.0.0.1", str(running.port), "-k", KEY, "-m", MODEL, *map(str, options)]
        return self.children.spawn(argv, {}, "load", output=subprocess.PIPE)

    def ended(self, load: "subprocess.Popen[bytes]", patience: float = 300.0) -> Facts:
        """Wait for a load tool; returns its result."""
        try:
            output, _ = load.communicate(timeout=patience)
        finally:
            self.children.stop([load])
        result: Facts = json.loads(output)
        return result

    def shoot(self, running: Running, *options: object) -> Facts:
        """Run the load tool on a peer; returns its result, see the head of src/load.c."""
        return self.ended(self.begin(running, *options))

    def ask(self, path: str, engine: int = 0) -> Any:
        """What an engine says at /stats, /log or /reset."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.engines[engine]}{path}", timeout=30) as answer:
            return json.load(answer)

    def ask_all(self, path: str) -> list[Any]:
        """The same of each engine."""
        return [self.ask(path, number) for number in range(len(self.engines))]

    def idle(self, patience: float = 12.0) -> bool:
        """Wait until no engine runs anything."""
        return _within(patience, lambda: not any(one["concurrent"] for one in self.ask_all("/stats")))


def requests_of(path: Path) -> list[Facts]:
    """The load tool's rows, one per request."""
    names = ("id", "start", "sent", "first_byte", "first_chunk", "end", "status", "chunks", "bytes")
    rows: list[Facts] = []
    for line in path.read_text(encoding="ascii").splitlines():
        *numbers, outcome = line.split()
        rows.append({**dict(zip(names, map(int, numbers), strict=True)), "outcome": outcome})
    return rows


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Ask every 50 ms until it is so; returns whether it was."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if condition():
                return True
        time.sleep(0.05)
    return False
