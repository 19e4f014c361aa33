"""What chaos is done to on loopback: whole processes, with a forwarder in each link and before each engine."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from iop.admin.client import AdminClient, AdminRefused, AdminUnreachable
from tests.bench.front import Front, Mode
from tests.bench.plan import Fault
from tests.cluster.harness import DEADLINE, NODES, eventually
from tests.cluster.held import HeldCluster

#: short, so that a run of minutes meets each of them
OPTIONS: dict[str, Any] = {
    "link": {"dead_after": "4s"},
    "probe": {"every": "2s"},
    "stream": {"keepalive_after": "2s", "write_timeout": "10s", "idle_timeout": "12s"},
    "engine": {"answer_timeout": "12s"},
    "queue": {"max_wait": "40s", "offline_grace": "15s"},
    "drain_timeout": "30s",
    "wedge_after": "4s",
    # the holder's, which do not change: with the real ones in the file, each refresh would ask for a restart
    "listen": dict.fromkeys(("openai", "nodes", "admin"), "127.0.0.1:0"),
}
#: 15 s between two dials at most, 4 s of silence until a link is dead, 5 s until a probe is, one more probe after
#: 2 s, 14 s for a machine with other work
RECOVERY_S = 40.0
#: how each engine wants to be left
ON_DISCONNECT = {"mac-mlx-vllm": "cancel", "gx10-vllm": "cancel_streams", "onexplayer-lemonade": "finish"}
_MODES: dict[str, Mode] = {
    "engine answers 500": "status", "engine answers garbage": "garbage", "engine hangs": "hang",
    "engine cuts answers": "cut", "engine resets": "reset", "cut link": "refuse", "silence link": "silence",
    "slow link": "slow",
}  # fmt: skip


_Act = Callable[[Fault], Awaitable[None]]


async def _nothing(_fault: Fault) -> None:
    """What was done needs no undoing."""


class Site(Protocol):
    """What a chaos run needs of its place."""

    @property
    def openai(self) -> str:
        """Base URL of the OpenAI API, with `/v1`."""

    @property
    def admin(self) -> str:
        """Base URL of the admin API."""

    @property
    def control(self) -> str:
        """URL of the Edge's status at the Control Plane."""

    def hits(self, fault: Fault) -> dict[str, str]:
        """What it hits, as fields of the record: `provider` or `node`, or neither."""

    async def begin(self, fault: Fault) -> None:
        """Do it."""

    async def heal(self, fault: Fault) -> None:
        """Undo it, and return when it is undone."""

    async def engines(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Counters of the engines that answer, with the number of the life they are in."""


@dataclass
class ChaosCluster(HeldCluster):
    """Whole processes on loopback. `seen` is told (provider, request id, mode) of what goes to an engine."""

    seen: Callable[[str, str, str], None] = lambda _provider, _request_id, _mode: None
    links: dict[str, Front] = field(default_factory=dict)
    fronts: dict[str, Front] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    lives: dict[str, int] = field(default_factory=dict)
    upstreams: dict[str, str] = field(default_factory=dict)  # where each engine listens, also while it is dead

    def __post_init__(self) -> None:
        """A forwarder per link and per engine; none of them listens yet."""
        super().__post_init__()
        self.options = {**OPTIONS, **self.options}
        for node_id, (provider, _) in NODES.items():
            self.links[node_id] = Front(lambda: super(ChaosCluster, self).link_address(""))
            self.fronts[provider] = Front(
                lambda name=provider: self.upstreams[name], lambda one, mode, name=provider: self.seen(name, one, mode)
            )

    async def start(self) -> None:
        """Start the forwarders, then everything."""
        await asyncio.gather(*(front.start() for front in (*self.links.values(), *self.fronts.values())))
        await super().start()

    async def start_engine(self, provider: str) -> None:
        """Start it, in its next life."""
        self.lives[provider] = self.lives.get(provider, 0) + 1
        await super().start_engine(provider)
        self.upstreams[provider] = self.engine(provider)

    def engine_address(self, provider: str) -> str:
        """The forwarder before it."""
        return self.fronts[provider].address

    def link_address(self, node_id: str) -> str:
        """The forwarder of the node's link."""
        return self.links[node_id].address

    def edge_config(self) -> dict[str, Any]:
        """Capacities as they are now, and without what was removed."""
        config = super().edge_config()
        for node in config["nodes"]:
            for provider in node["providers"]:
                provider["on_disconnect"] = ON_DISCONNECT[provider["id"]]
            node["providers"] = [one for one in node["providers"] if one["id"] not in self.removed]
        for model in config["models"]:
            if "providers" in model:
                model["providers"] = {k: v for k, v in model["providers"].items() if k not in self.removed}
        return config

    async def close(self) -> None:
        """Stop everything, the forwarders last."""
        try:
            await super().close()
        finally:
            await self.close_fronts()

    async def close_fronts(self) -> None:
        """End the forwarders."""
        await asyncio.gather(*(front.close() for front in (*self.links.values(), *self.fronts.values())))

    def thaw_all(self) -> None:
        """Nothing of ours stands still: what is stopped would hear of no end."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            os.kill(self.state["worker"], signal.SIGCONT)
        for process in self.processes.values():
            process.signal(signal.SIGCONT)


class Loopback:
    """Does faults to a `ChaosCluster`."""

    def __init__(self, made: ChaosCluster) -> None:
        self._made = made
        self._whole = dict(made.capacities)
        self._refreshing = asyncio.Lock()
        #: by the first word of a kind: how it is done, and undone
        self._acts: dict[str, tuple[_Act, _Act]] = {
            "kill": (self._kill, self._born_again),
            "stop": (self._stop, self._born_again),
            "restart": (self._replace_edge, _nothing),
            "freeze": (self._freeze, self._thaw),
            "cut": (self._turn, self._turn_back),
            "silence": (self._turn, self._turn_back),
            "slow": (self._turn, self._turn_back),
            "engine": (self._turn, self._turn_back),
            "reset": (self._reset, _nothing),
            "drain": (self._drain, self._undrain),
            "resize": (self._shrink, self._grow),
            "remove": (self._remove, self._add),
        }

    @property
    def openai(self) -> str:
        """Base URL of the OpenAI API."""
        return self._made.openai

    @property
    def admin(self) -> str:
        """Base URL of the admin API."""
        return self._made.at("admin")

    @property
    def control(self) -> str:
        """URL of the Edge's status at the Control Plane."""
        return f"http://{self._made.processes['control'].ready['control']}/edges/edge-test/status"

    def hits(self, fault: Fault) -> dict[str, str]:
        """The provider or the node that the fault names."""
        kinds: dict[str, Mapping[str, object]] = {"provider": self._whole, "node": NODES}
        return {word: fault.target for word, known in kinds.items() if fault.target in known}

    async def begin(self, fault: Fault) -> None:
        """Do it. Raises what the call that does it raises."""
        await self._acts[fault.kind.split()[0]][0](fault)

    async def heal(self, fault: Fault) -> None:
        """Undo it. Raises what the call that does it raises."""
        await self._acts[fault.kind.split()[0]][1](fault)

    async def engines(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Counters of the engines that answer."""
        found = {}
        for provider in self._whole:
            life = self._made.lives[provider]
            with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    found[provider] = (life, await self._made.stats(provider))
        return found

    async def _kill(self, fault: Fault) -> None:
        if fault.target == "edge":
            await self._made.restart_edge(signal.SIGKILL)
        else:
            await self._made.processes[self._name(fault)].kill()

    async def _stop(self, fault: Fault) -> None:
        code = await self._made.processes[fault.target].stop()
        if code != 0:
            raise AssertionError(f"{fault.target} ended with {code} after SIGTERM")

    async def _born_again(self, fault: Fault) -> None:
        if fault.target in NODES:
            await self._made.start_node(fault.target)
        elif fault.target in self._whole:
            await self._made.start_engine(fault.target)
        elif fault.target == "control":
            await self._made.start_control()

    async def _replace_edge(self, _fault: Fault) -> None:
        await self._made.restart_edge(signal.SIGHUP)

    async def _freeze(self, fault: Fault) -> None:
        self._signal(fault, signal.SIGSTOP)

    async def _thaw(self, fault: Fault) -> None:
        self._signal(fault, signal.SIGCONT)

    async def _turn(self, fault: Fault) -> None:
        self._front(fault).turn(_MODES[fault.kind])

    async def _turn_back(self, fault: Fault) -> None:
        self._front(fault).turn("pass")

    async def _reset(self, fault: Fault) -> None:
        self._front(fault).close_all(reset=True)

    async def _drain(self, fault: Fault) -> None:
        lease = fault.seconds + DEADLINE
        await self._ask(lambda edge: edge.drain(fault.target, lease_s=lease, by="chaos", reason="chaos"))

    async def _undrain(self, fault: Fault) -> None:
        await self._ask(lambda edge: edge.undrain(fault.target))

    async def _shrink(self, fault: Fault) -> None:
        less = 1 + int(fault.share * (self._whole[fault.target] - 1))
        await self._refresh(lambda: self._made.capacities.update({fault.target: less}))

    async def _grow(self, fault: Fault) -> None:
        await self._refresh(lambda: self._made.capacities.update({fault.target: self._whole[fault.target]}))

    async def _remove(self, fault: Fault) -> None:
        await self._refresh(lambda: self._made.removed.add(fault.target))

    async def _add(self, fault: Fault) -> None:
        await self._refresh(lambda: self._made.removed.discard(fault.target))

    def _name(self, fault: Fault) -> str:
        return f"engine-{fault.target}" if fault.target in self._whole else fault.target

    def _front(self, fault: Fault) -> Front:
        return self._made.links[fault.target] if fault.target in NODES else self._made.fronts[fault.target]

    def _signal(self, fault: Fault, number: signal.Signals) -> None:
        if fault.target != "edge":
            self._made.processes[self._name(fault)].signal(number)
        elif (worker := self._made.state["worker"]) is not None:
            os.kill(worker, number)

    async def _refresh(self, change: Callable[[], object]) -> None:
        """Write the changed edge.yaml and have the Edge take it over, as an operator does."""
        async with self._refreshing:
            change()
            path = self._made.write_edge_config()
            text = path.read_text(encoding="utf-8")
            answer = await self._ask(lambda edge: edge.refresh("apply", text, str(path), ack_timeout_s=0.5))
        if answer.refused or answer.restart_required:
            raise AssertionError(f"the refresh was refused: {answer.body}")

    async def _ask(self, call: Callable[[AdminClient], Any]) -> Any:
        token = (self._made.folder / "admin.token").read_text(encoding="ascii").strip()
        return await ask_edge(AdminClient(self.admin, token=token, timeout=5.0), call, within=DEADLINE)


async def ask_edge(edge: AdminClient, call: Callable[[AdminClient], Any], *, within: float) -> Any:
    """Ask the Edge; one that is away, frozen or stopping is asked again until it answers. Closes the client."""

    async def answered() -> tuple[Any]:
        try:
            return (await asyncio.to_thread(call, edge),)
        except (AdminUnreachable, AdminRefused) as error:
            if isinstance(error, AdminRefused) and error.status != 503:
                raise
            raise OSError(str(error)) from error

    with edge:
        return (await eventually(answered, "the Edge takes the change", within=within))[0]
