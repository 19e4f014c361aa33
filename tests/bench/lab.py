"""Chaos on three booted hosts, `make chaos ENV=lab`: a clone with a lab of its own, deployed, broken, taken down."""

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from iop.admin.client import AdminClient
from iop.admin.forwards import Forwards, Urls
from iop.config.inventory import load_inventory
from iop.ops.token import admin_token
from tests.bench.chaos import cancellable, conclude, run_folder
from tests.bench.judge import judge
from tests.bench.load import Mix
from tests.bench.plan import LAB, Fault, plan, replay
from tests.bench.record import HISTORY, Begun, History, Trouble
from tests.bench.run import ChaosRun
from tests.bench.site import ask_edge
from tests.bench.view import view
from tests.cluster.harness import DEADLINE, eventually
from tests.fakes.hygiene import FAULTS
from tests.lab.lab import HOSTS, Lab
from tests.lab.site import NODES, LabSite

#: 15 s between two dials, 15 s for a silent link, 5 s for a probe and 10 s to the next, 45 s for a boot or a restart by
#: the host's service manager on a machine with other work
RECOVERY_S = 90.0
MIX = Mix(lengths=(2, 5, 20, 60, 200), pool_model="local-chat", direct_model="codex")
EDGE_HOST, EDGE_FILE = "mac", "/srv/iop/shared/edge.yaml"
#: finds the service of a module in its host's processes (no others are seen there), ends it when `sys.argv[2]` says so,
#: and tells its pid
FIND = r"""
import os, signal, sys
wanted = ["-m", "iop.commands." + sys.argv[1]]
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline").read().split("\0")
    except OSError:
        continue
    if any(words[n:n + 2] == wanted for n in range(len(words))) and "serve" in words:
        if sys.argv[2] == "kill":
            os.kill(int(pid), signal.SIGKILL)
        print(pid)
"""
STATS = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=2).read().decode())"


@dataclass
class LabPlace:
    """Does faults to the hosts of a lab that is deployed."""

    lab: Lab
    urls: Urls
    token: str
    edge_id: str
    slots: dict[str, int]
    hosts: dict[str, str]  # provider -> host
    ports: dict[str, int]  # provider -> its engine's port
    lives: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What each kind does, and what undoes it."""
        lab = self.lab
        self._text = lab.exec(EDGE_HOST, "cat", EDGE_FILE).out
        self._killed: dict[int, list[int]] = {}
        self._resizing = asyncio.Lock()
        self._now = dict(self.slots)
        self._hosts_acts: dict[str, tuple[Callable[[Fault], None], Callable[[str], None]]] = {
            "cut host": (lambda f: lab.cut(f.target), lab.restore),
            "lose packets of host": (lambda f: lab.loss(f.target, 10 + int(f.share * 50)), lab.heal),
            "freeze host": (lambda f: lab.freeze(f.target), lab.thaw),
            "crash host": (lambda f: lab.crash(f.target), lab.boot),
            "reset engine port": (lambda f: lab.reset(f.target, self._port_on(f.target)), lab.heal),
        }
        self._acts: dict[str, tuple[Callable[[Fault], Awaitable[None]], Callable[[Fault], Awaitable[None]]]] = {
            "kill": (self._kill, self._is_back),
            "drain": (self._drain, self._undrain),
            "resize": (self._shrink, self._grow),
        }

    @property
    def openai(self) -> str:
        """Base URL of the OpenAI API."""
        return self.urls.openai

    @property
    def admin(self) -> str:
        """Base URL of the admin API."""
        return self.urls.admin

    @property
    def control(self) -> str:
        """URL of the Edge's status at the Control Plane."""
        return f"{self.urls.control}/edges/{self.edge_id}/status"

    def hits(self, fault: Fault) -> dict[str, str]:
        """A host is its node, and its engine's provider."""
        if fault.target in self.slots:
            return {"provider": fault.target}
        node = NODES.get(fault.target, fault.target)
        return {"node": node} if node in NODES.values() else {}

    async def begin(self, fault: Fault) -> None:
        """Do it."""
        if fault.kind in self._hosts_acts:
            await asyncio.to_thread(self._hosts_acts[fault.kind][0], fault)
        else:
            await self._acts[fault.kind.split()[0]][0](fault)

    async def heal(self, fault: Fault) -> None:
        """Undo it."""
        if fault.kind in self._hosts_acts:
            await asyncio.to_thread(self._hosts_acts[fault.kind][1], fault.target)
        else:
            await self._acts[fault.kind.split()[0]][1](fault)

    async def engines(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Counters of the engines, each asked on its host; a life is a process there."""
        found = {}
        for provider, host in self.hosts.items():
            with contextlib.suppress(OSError, ValueError, TimeoutError):
                pids = await self._find(host, "simulator")
                url = f"http://127.0.0.1:{self.ports[provider]}/stats"
                done = await asyncio.to_thread(self.lab.exec, host, "python3", "-c", STATS, url)
                seen = self.lives.setdefault(provider, [])
                if done.code == 0 and pids:
                    seen.extend(pid for pid in pids if pid not in seen)
                    found[provider] = (len(seen), json.loads(done.out))
        return found

    def faults_in_logs(self) -> list[str]:
        """Lines of the hosts' logs that no healthy process writes."""
        pattern = "|".join(FAULTS).replace("(", r"\(").replace(")", r"\)")
        logs = "journalctl -q --no-pager; cat /srv/iop/shared/logs/*.log /var/log/iop/*.log"
        script = f"({logs}) 2>/dev/null | grep -E '{pattern}' | head -5"
        return [
            f"{host}: {line}" for host in HOSTS for line in self.lab.exec(host, "sh", "-c", script).out.splitlines()
        ]

    def _port_on(self, host: str) -> int:
        return next(self.ports[provider] for provider, where in self.hosts.items() if where == host)

    def _service(self, fault: Fault) -> tuple[str, str]:
        """Host and module of what a kill hits."""
        if fault.target in self.slots:
            return self.hosts[fault.target], "simulator"
        if fault.target in NODES.values():
            return next(host for host, node in NODES.items() if node == fault.target), "node"
        return EDGE_HOST, fault.target

    async def _find(self, host: str, module: str, what: str = "look") -> list[int]:
        done = await asyncio.to_thread(self.lab.exec, host, "python3", "-c", FIND, module, what)
        return sorted(int(line) for line in done.out.split())

    async def _kill(self, fault: Fault) -> None:
        self._killed[fault.number] = await self._find(*self._service(fault), "kill")
        if not self._killed[fault.number]:
            raise ValueError(f"no process of {fault.target} was found")

    async def _is_back(self, fault: Fault) -> None:
        async def another() -> bool:
            pids = await self._find(*self._service(fault))
            return bool(pids) and not set(pids) & set(self._killed.get(fault.number, ()))

        await eventually(another, f"{fault.target} is started again", within=2 * DEADLINE)

    async def _drain(self, fault: Fault) -> None:
        lease = fault.seconds + 2 * DEADLINE
        await self._ask(lambda edge: edge.drain(fault.target, lease_s=lease, by="chaos", reason="chaos"))

    async def _undrain(self, fault: Fault) -> None:
        await self._ask(lambda edge: edge.undrain(fault.target))

    async def _shrink(self, fault: Fault) -> None:
        await self._resize(fault.target, 1 + int(fault.share * (self.slots[fault.target] - 1)))

    async def _grow(self, fault: Fault) -> None:
        await self._resize(fault.target, self.slots[fault.target])

    async def _resize(self, provider: str, capacity: int) -> None:
        """Apply the deployed config with other capacities; the file on the host stays, so a restart undoes it too."""
        async with self._resizing:
            self._now[provider] = capacity
            config = yaml.safe_load(self._text)
            for node in config["nodes"]:
                for one in node["providers"]:
                    one["capacity"] = self._now[one["id"]]
            text = yaml.safe_dump(config)
            answer = await self._ask(lambda edge: edge.refresh("apply", text, EDGE_FILE, ack_timeout_s=1))
        if answer.refused or answer.restart_required:
            raise AssertionError(f"the refresh was refused: {answer.body}")

    async def _ask(self, call: Callable[[AdminClient], Any]) -> Any:
        return await ask_edge(AdminClient(self.admin, token=self.token, timeout=10.0), call, within=2 * DEADLINE)


def main_lab(seed: int, minutes: float, tell: Callable[[str], None], *, only_plan: bool) -> int:
    """Make the lab, deploy, break, judge, take it down; returns the exit code."""
    targets = {
        "host": [host for host in HOSTS if host != EDGE_HOST], "node": list(NODES.values()),
        "provider": ["mac-mlx-vllm", "gx10-vllm", "onexplayer-lemonade"], "edge": ["edge"], "control": ["control"],
    }  # fmt: skip
    schedule = plan(seed, minutes * 60, LAB, targets)
    if only_plan:
        tell("\n".join(map(str, schedule)))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="iop-chaos-"))
    site = None
    try:
        site = LabSite(folder)
        command = replay(seed, minutes, lab=True)
        tell(f"chaos seed {seed} · {minutes:g} min · {len(schedule)} faults · again: {command}")
        tell("a lab of its own: three hosts are booted")
        if (code := site.begin(tell)) != 0:
            return code
        return cancellable(_lab(site, seed, minutes, schedule))
    finally:
        if site is not None:
            site.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _lab(site: LabSite, seed: int, minutes: float, schedule: Sequence[Fault]) -> int:
    inventory = load_inventory("lab", site.root)
    engines = {p.id: (host.name, p) for host in inventory.hosts for p in host.providers}
    slots = {name: engines[name][1].capacity for name in ("mac-mlx-vllm", "gx10-vllm", "onexplayer-lemonade")}
    nodes = {NODES[host]: name for name, (host, _) in engines.items()}
    nodes = {node: nodes[node] for node in NODES.values()}
    folder = run_folder(seed)
    history = History(folder / HISTORY)
    begun = Begun(0.0, seed, minutes, replay(seed, minutes, lab=True), True, slots, nodes, RECOVERY_S)
    forwards = Forwards(inventory)
    try:
        urls = await asyncio.to_thread(forwards.open)
        token = admin_token(inventory)
        place = LabPlace(
            site.lab, urls, token, inventory.edge_id, slots, {name: host for name, (host, _) in engines.items()},
            {name: one.engine_port for name, (_, one) in engines.items()},
        )  # fmt: skip
        run = ChaosRun(begun, place, schedule, history, print, mix=MIX, engines_s=5.0, calm_s=2 * RECOVERY_S)
        try:
            await run.run()
        finally:
            await asyncio.to_thread(site.lab.repair)
        for line in await asyncio.to_thread(place.faults_in_logs):
            history.add(Trouble(run.clock(), line))
    finally:
        forwards.close()
        history.close()
    return conclude(judge(view(history.records)), schedule, folder)
