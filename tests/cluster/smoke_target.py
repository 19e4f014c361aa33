"""A cluster that smoke can be pointed at: an inventory folder and a build folder of its own below a temporary checkout.

`pytest smoke/ --inventory <folder>/inventory/test` then takes `<folder>` for the checkout.
"""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness import NODES, ROOT, Cluster, cluster

NAME = "test"
#: seconds for a whole smoke run on a loaded machine
RUN_S = 420.0


@dataclass
class Smoked:
    """One finished smoke run."""

    code: int
    stdout: str
    folder: Path | None

    @property
    def last_line(self) -> str:
        """The line that sums the run up."""
        return self.stdout.rstrip().splitlines()[-1]

    def report(self) -> str:
        """The text of report.md."""
        assert self.folder is not None, self.stdout
        return (self.folder / "report.md").read_text(encoding="utf-8")


@asynccontextmanager
async def deployed(checkout: Path, **options: Any) -> AsyncIterator[Cluster]:
    """A running cluster whose files lie where a deploy would put them."""
    home = checkout / "build" / f"{NAME}-runtime"
    home.mkdir(parents=True)
    async with cluster(home, **options) as made:
        _write_launcher(home)
        write_inventory(checkout, made)
        yield made


def write_inventory(checkout: Path, made: Cluster) -> Path:
    """Write `inventory/test` for a running cluster and return the folder."""
    folder = checkout / "inventory" / NAME
    (checkout / "ansible.cfg").write_text("[defaults]\n", encoding="utf-8")
    names = {node_id: node_id.split("-", 1)[0] for node_id in NODES}
    groups = {"nodes": {"hosts": dict.fromkeys(names.values())}}
    groups |= {group: {"hosts": {"mac": None}} for group in ("edge", "control_plane", "builder")}
    _write(folder / "hosts.yml", {"all": {"children": groups}})
    edge, control = made.processes["edge"].ready, made.processes["control"].ready
    ports = {name: _port(edge[name]) for name in ("openai", "nodes", "admin")} | {"control": _port(control["control"])}
    config = made.edge_config()
    shared = {
        "deploy_env": NAME,
        "edge_id": config["edge"]["id"],
        "ports": ports,
        "models": config["models"],
        "smoke_model": "pool",
        "engine_kind": "simulator",
        "smoke_disruptive": True,
    }
    _write(folder / "group_vars" / "all.yml", shared)
    for node in config["nodes"]:
        _write(folder / "host_vars" / names[node["id"]] / "node.yml", _host(made, node))
    return folder


@asynccontextmanager
async def kept(checkout: Path, made: Cluster) -> AsyncIterator[None]:
    """What a service manager does for nodes: each is known by its record, and is started again when it dies."""

    async def keep(node_id: str) -> None:
        while True:
            process = made.processes[node_id]
            write_record(checkout, node_id, process.child.pid)
            await process.child.wait()
            await made.start_node(node_id)

    async with asyncio.TaskGroup() as group:
        keepers = [group.create_task(keep(node_id)) for node_id in NODES]
        yield
        for keeper in keepers:
            keeper.cancel()


def write_record(checkout: Path, node_id: str, pid: int) -> None:
    """Write what an activation writes of a node's service, from which the release helper tells its process."""
    host = node_id.split("-", 1)[0]
    path = checkout / "build" / f"{NAME}-runtime" / "hosts" / host / "shared" / "run" / f"{host}.node.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    path.write_text(json.dumps({"release": "test", "digest": "test", "pid": pid, "argv": argv}), encoding="utf-8")


async def smoke(checkout: Path, *options: str) -> Smoked:
    """Run the suite as a person does, in a process of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "smoke/", "--inventory", str(checkout / "inventory" / NAME), *options]
    child = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=env, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        stdout, _ = await asyncio.wait_for(child.communicate(), RUN_S)
    except BaseException:
        child.kill()
        await child.wait()
        raise
    runs = sorted((checkout / "build" / f"{NAME}-runtime" / "smoke").glob("*"))
    return Smoked(child.returncode or 0, stdout.decode(), runs[-1] if runs else None)


def _host(made: Cluster, node: dict[str, Any]) -> dict[str, Any]:
    platforms = {"mac": ("macos", "arm64"), "gx10": ("linux", "arm64"), "onexplayer": ("windows", "amd64")}
    platform, arch = platforms[node["id"].split("-", 1)[0]]
    return {
        "node_id": node["id"],
        "node_alias": node["id"],
        "node_platform": platform,
        "node_arch": arch,
        "service_manager": "supervisor",
        "cli_targets": node["adapters"].get("cli", {}).get("targets", {}),
        "providers": [
            {name: entry[name] for name in ("id", "type", "category", "capacity")}
            | {"engine_port": _port(made.engine(entry["id"]))}
            for entry in node["providers"]
        ],
    }


def _write_launcher(home: Path) -> None:
    path = home / "bin" / "edge"
    path.parent.mkdir()
    runtime, python = shlex.quote(str(ROOT / "runtime")), shlex.quote(sys.executable)
    path.write_text(f'#!/bin/sh\nPYTHONPATH={runtime} exec {python} -m iop.commands.edge "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _write(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


def _port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])
