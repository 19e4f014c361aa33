"""`iop-node doctor`: what this host has of all that a node needs, seen without disturbing one that runs."""

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec

from iop.adapters.cli.readiness import Verdict, look, user
from iop.config.findings import Finding
from iop.config.models import NodeConfig
from iop.config.scalars import Address
from iop.link.frames import control_frame
from iop.link.messages import CliTarget, EngineInstance
from iop.node.memory import Memory, Remembered
from iop.transport.tls import HUNG_UP, client_context, dial_trouble
from iop.wiring.node import HostAdapters, state_folder

#: seconds for an address to answer
ANSWERS_WITHIN = 5.0
#: seconds that an Edge must stay on the line after the beginning of a frame; one that wants TLS hangs up at once
STAYS_FOR = 2.0
#: the beginning of a frame: an Edge waits for the rest, and says and logs nothing when that does not come
_BEGINNING = control_frame(bytes(64))[:5]
#: variables that decide which programs and which login an agent finds
_TELLING = ("HOME", "PATH")

Outcome = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `next` is what to do about it; `unknown` = it cannot be seen from here."""

    name: str
    outcome: Outcome
    detail: str
    next: str | None = None


async def examine(config: NodeConfig, folder: Path) -> list[Check]:
    """Look at everything that node.yaml, whose file stands in `folder`, and the last config of its node name."""
    remembered = Memory(state_folder(config, folder), config.node.id).read()
    checks = [_account(), _token(config), _state(config, folder), await _edge(config)]
    checks.append(await _running_node(config, remembered))
    if remembered is not None:
        checks += _environment(remembered)
    commands = {name: tuple(command) for name, command in config.cli_commands.items()}
    host = HostAdapters(folder, commands)
    checks += [check async for check in _targets(host, commands, remembered)]
    for engine in remembered.runtime.engines if remembered else ():
        checks.append(await _engine(host, engine))
    return checks


def unusable(findings: Iterable[Finding]) -> list[Check]:
    """Tell what is wrong in a node.yaml that cannot be used: then nothing else can be looked at."""
    told = [
        Check("node.yaml", "failed", f"{found.file}:{found.line}: {found.path}: {found.message}", found.hint or None)
        for found in findings
        if found.severity == "error"
    ]
    return [_account(), *told, Check("the rest", "unknown", "not looked at", "correct node.yaml first")]


def environment() -> dict[str, str]:
    """Return this process's variables that agents depend on."""
    return {name: os.environ[name] for name in _TELLING if name in os.environ}


def _account() -> Check:
    told = ", ".join(f"{name}={value}" for name, value in environment().items())
    return Check("account", "ok", f"this command runs as {user()}, {told}")


def _token(config: NodeConfig) -> Check:
    if config.node.token_file is None:
        return Check("token", "ok", "no token_file: the Edge takes this node from loopback only")
    path = Path(config.node.token_file)
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        return Check("token", "failed", f"{path}: {error}", "write the token that `edge node register` has printed")
    if not text.strip():
        return Check("token", "failed", f"{path} is empty", "write the token that `edge node register` has printed")
    if sys.platform != "win32" and mode & 0o077:
        return Check("token", "failed", f"other users can read {path}", f"chmod 600 {path}")
    return Check("token", "ok", f"{path}")


def _state(config: NodeConfig, folder: Path) -> Check:
    place = state_folder(config, folder)
    nearest = next(path for path in (place, *place.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK):
        return Check("state", "ok", f"{place}")
    return Check("state", "failed", f"{place} cannot be written by {user()}", "set state_dir to a folder of this user")


async def _edge(config: NodeConfig) -> Check:
    address = config.edge.addr
    try:
        tls = client_context(config.edge.ca_file) if config.edge.ca_file is not None else None
        async with asyncio.timeout(ANSWERS_WITHIN):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
        stays = tls is not None or await _stays(reader, writer)
        writer.transport.abort()
    except OSError as error:
        why = _trouble(error, address)
        return Check("edge", "failed", f"{address}: {why}", "check edge.addr, edge.ca_file, and that the Edge runs")
    if not stays:
        step = "set edge.ca_file when the Edge has tls.nodes; check that edge.addr is its listen.nodes"
        return Check("edge", "failed", f"{address}: it hangs up on what is not TLS, and there is no edge.ca_file", step)
    how = "the Edge's certificate is good" if tls else "the port answers"
    return Check("edge", "ok", f"{address}: {how} (not asked whether it knows this node: see `running node`)")


async def _stays(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the other end waits for the rest of a frame. Without TLS, an end that wants it answers or hangs up."""
    writer.write(_BEGINNING)
    try:
        async with asyncio.timeout(STAYS_FOR):
            await reader.read(1)
    except TimeoutError:
        return True
    except ConnectionError:
        return False
    return False


def _trouble(error: OSError, address: Address) -> str:
    """Say in a few words why the Edge cannot be reached."""
    if isinstance(error, ssl.SSLError):
        return dial_trouble(error, address.host)
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return HUNG_UP
    if isinstance(error, TimeoutError) and not str(error):
        return f"no answer within {ANSWERS_WITHIN:g} s"
    why = error.strerror or str(error)
    return os.strerror(error.errno) if error.errno and why.startswith("Connect call failed") else why


async def _running_node(config: NodeConfig, remembered: Remembered | None) -> Check:
    node_id, listen = config.node.id, config.status_listen
    start = f"start it: iop-node --config … serve (as the user whose agents {node_id} shall run)"
    if remembered is None and listen.port == 0:
        step = f"{start}; if it runs, its log says what the Edge objects to"
        return Check("running node", "unknown", "none of this config was ever connected to an Edge from here", step)
    at = str(listen) if remembered is None else remembered.status
    told = await _status_of(at)
    if told is None or told.get("node", {}).get("id") != node_id:
        return Check("running node", "unknown", f"{node_id} does not answer at {at}", start)
    link = told.get("link", {})
    if link.get("connected"):
        return Check("running node", "ok", f"{node_id} at {at} is connected to {link.get('edge')}")
    detail = f"{node_id} is not connected: {link.get('state')} ({link.get('last_loss')})"
    return Check("running node", "failed", detail, "see its log; turned_away names what the Edge objects to")


async def _status_of(address: str) -> dict[str, Any] | None:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=ANSWERS_WITHIN) as client:
            told = (await client.get(f"http://{address}/status")).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return told if isinstance(told, dict) else None


def _environment(remembered: Remembered) -> list[Check]:
    """Where the service's environment is another one than this command's: agents see the service's."""
    mine = {"user": user(), **environment()}
    theirs = {"user": remembered.user, **remembered.environment}
    return [
        Check("service", "unknown", f"the node runs with {name}={theirs.get(name)}, this command with {mine.get(name)}",
              "agents see the node's; run doctor as the node runs to be sure")
        for name in ("user", *_TELLING)
        if theirs.get(name) != mine.get(name)
    ]  # fmt: skip


async def _targets(
    host: HostAdapters, commands: Mapping[str, tuple[str, ...]], remembered: Remembered | None
) -> AsyncIterator[Check]:
    """The agents of the last config, with the service's HOME and PATH; else the programs that node.yaml names."""
    if remembered is None:
        known = tuple(CliTarget(name=name, kind="text", command=command) for name, command in commands.items())
        unseen = "the Edge has not told yet which agents run here: their kinds and logins are not seen"
        yield Check("agents", "unknown", unseen, "start the node once")
    else:
        known = remembered.runtime.cli_targets
    for target in known:
        env = {**(remembered.environment if remembered else {}), **target.env}
        yield _agent(target, await look(host.resolve(msgspec.structs.replace(target, env=env))))


def _agent(target: CliTarget, verdict: Verdict) -> Check:
    name = f"agent {target.name}"
    facts = verdict.codex
    told = [" ".join(verdict.command)] if verdict.command else []
    if facts is not None:
        way = "app-server" if facts.app_server else "exec, without token streaming"
        told += [facts.version or "unknown version", way, facts.account]
    if verdict.ready:
        return Check(name, "ok", f"{target.kind}: {', '.join(told)}")
    why, _, step = (verdict.reason or "not ready").partition("; ")
    return Check(name, "failed", f"{target.kind}: {', '.join([why, *told])}", step or "run it by hand")


async def _engine(host: HostAdapters, engine: EngineInstance) -> Check:
    name = f"engine {engine.name}"
    try:
        adapter = host.engine(engine)
    except (OSError, ValueError) as error:
        return Check(name, "failed", f"{engine.endpoint}: {error}", "check api_key_file")
    try:
        result = await adapter.probe()
    finally:
        await adapter.close()
    if result.up:
        return Check(name, "ok", f"{engine.endpoint} answers")
    return Check(name, "failed", f"{engine.endpoint}: {result.reason}", "start the engine, or check its endpoint")
