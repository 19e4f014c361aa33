"""`fab status`, `fab logs HOST`, `fab smoke`, `fab deploy`: the operator's view of an environment.

Every task takes `--target` (dev, local, …: a folder below inventory/). Run from the root of the checkout.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "runtime"))  # this checkout's code, whatever is installed

from fabric import Connection, task  # noqa: E402 - after the path above
from rich.console import Console, Group, RenderableType  # noqa: E402
from rich.live import Live  # noqa: E402
from rich.table import Table  # noqa: E402
from rich.text import Text  # noqa: E402

from iop.admin.client import AdminClient, AdminRefused, AdminUnreachable  # noqa: E402
from iop.config.inventory import Host, Inventory, InventoryError, load_inventory  # noqa: E402
from iop_release.layout import HostRoot  # noqa: E402
from iop_release.services.supervisor import Supervisor  # noqa: E402
from iop_release.status import status as host_status  # noqa: E402

TARGET = {"target": "the environment: a folder below inventory/ (dev)"}
GOOD, BAD, DIM = "green", "bold red", "dim"


@task(
    help={
        **TARGET,
        "watch": "again every second until Ctrl-C",
        "json": "the same facts as one JSON object",
    }
)
def status(
    _connection: Connection,
    target: str = "dev",
    watch: bool = False,  # noqa: FBT001, FBT002 - a flag of the command line
    json: bool = False,  # noqa: FBT001, FBT002 - as above
) -> None:
    """Hosts, services, releases, links, providers with in-flight/queued/capacity; exit 1 when one is down."""
    inventory = _inventory(target)
    if json:
        found = facts(inventory)
        _say(_text(found))
        sys.exit(0 if found["well"] else 1)
    console = Console(width=None if sys.stdout.isatty() else 140)
    if not watch:
        found = facts(inventory)
        console.print(picture(found))
        sys.exit(0 if found["well"] else 1)
    with Live(picture(facts(inventory)), console=console, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(1)
                live.update(picture(facts(inventory)), refresh=True)
        except KeyboardInterrupt:
            return


@task(
    help={
        **TARGET,
        "host": "mac, gx10 or onexplayer",
        "service": "only the log of this service",
        "follow": "go on until Ctrl-C",
        "lines": "how many of the last lines (50)",
    }
)
def logs(
    _connection: Connection,
    host: str,
    target: str = "dev",
    service: str = "",
    follow: bool = False,  # noqa: FBT001, FBT002 - a flag of the command line
    lines: int = 50,
) -> None:
    """The logs of a host's services."""
    inventory = _inventory(target)
    if host not in [one.name for one in inventory.hosts]:
        _stop(f"no host {host!r} (known: {', '.join(one.name for one in inventory.hosts)})")
    folder = inventory.host_root(host) / "shared" / "logs"
    files = sorted(str(path) for path in folder.glob(f"{service or '*'}.log"))
    if not files:
        _stop(f"no log in {folder}: is {target} deployed?")
    sys.stdout.flush()
    os.execvp("tail", ["tail", "-n", str(lines), *(["-F"] if follow else []), *files])  # noqa: S606, S607 - shows and ends


@task(help=TARGET)
def smoke(_connection: Connection, target: str = "dev") -> None:
    """Prove the running environment: `pytest smoke/ --target …`."""
    _become([sys.executable, "-m", "pytest", "smoke/", "--target", target])


@task(help={**TARGET, "check": "only tell what would change"})
def deploy(_connection: Connection, target: str = "dev", check: bool = False) -> None:  # noqa: FBT001, FBT002 - a flag
    """Deploy HEAD and prove it: `ansible-playbook playbooks/dev-runtime.yml`."""
    inventory = ROOT / "inventory" / target
    options = ["--check", "--diff"] if check else []
    _become([sys.executable, str(ROOT / "playbooks" / "launch.py"), "dev-runtime", "-i", str(inventory), *options])


def facts(inventory: Inventory) -> dict[str, Any]:
    """Everything `fab status` shows, as plain data. Asks the Edge by HTTP, the hosts only for what only they know."""
    edge, trouble = _edge_status(inventory)
    nodes = {node["id"]: node for node in edge.get("nodes", [])}
    manager = Supervisor(inventory.home)
    hosts = [_host(host, inventory, nodes.get(host.node_id, {}), manager) for host in inventory.hosts]
    providers = edge.get("provider_snapshots", [])
    services_run = all(one["state"] == "running" for host in hosts for one in host["services"])
    return {
        "target": inventory.env,
        "banner": inventory.banner,
        "well": bool(edge)
        and all(host["connected"] for host in hosts)
        and services_run
        and len(providers) == len(inventory.providers)
        and all(one["state"] == "ready" for one in providers),
        "edge": {**edge["edge"], "url": inventory.openai_url} if edge else None,
        "trouble": trouble,
        "hosts": hosts,
        "providers": providers,
        "totals": edge.get("totals"),
        "config": edge.get("config"),
    }


def picture(found: dict[str, Any]) -> RenderableType:
    """The facts as two tables."""
    head = [Text(found["banner"], style="yellow")] if found["banner"] else []
    edge = found["edge"]
    if edge is None:
        head.append(Text(f"Edge: {found['trouble']}", style=BAD))
    else:
        head.append(Text(f"{edge['id']} · release {edge['release_id']} · {edge['url']}"))
    return Group(*head, _host_table(found["hosts"]), _provider_table(found))


def _host_table(hosts: list[dict[str, Any]]) -> Table:
    table = Table("host", "node", "link", "release", "services")
    for host in hosts:
        services = Text("\n").join(
            Text(f"{one['name']} {one['state']}", style=GOOD if one["state"] == "running" else BAD)
            for one in host["services"]
        )
        link = Text(host["state"], style=GOOD if host["connected"] else BAD)
        table.add_row(host["name"], host["node"], link, host["release"] or "-", services or Text("not deployed", DIM))
    return table


def _provider_table(found: dict[str, Any]) -> Table:
    table = Table("provider", "node", "state", "in flight", "queued", "capacity")
    for one in found["providers"]:
        state = one["state"] if not one.get("reason") else f"{one['state']}: {one['reason']}"
        numbers = [str(one[name]) for name in ("in_flight", "queued", "capacity")]
        table.add_row(
            one["provider_id"], one["node_id"], Text(state, GOOD if one["state"] == "ready" else BAD), *numbers
        )
    totals = found["totals"]
    if totals:
        table.add_section()
        table.add_row("total", "", "", *(str(totals[name]) for name in ("in_flight", "queued", "capacity")))
    return table


def _host(host: Host, inventory: Inventory, node: dict[str, Any], manager: Supervisor) -> dict[str, Any]:
    told = host_status(HostRoot(inventory.host_root(host.name)), manager)
    return {
        "name": host.name,
        "node": host.node_id,
        "connected": bool(node.get("connected")),
        "state": node.get("state", "unknown"),
        "release": told["current"],
        "previous": told["previous"],
        "services": told["services"],
    }


def _edge_status(inventory: Inventory) -> tuple[dict[str, Any], str]:
    with AdminClient(inventory.admin_url, timeout=5.0) as client:
        try:
            return client.status(), ""
        except (AdminUnreachable, AdminRefused) as error:
            return {}, str(error)


def _inventory(target: str) -> Inventory:
    try:
        return load_inventory(target, ROOT)
    except InventoryError as error:
        _stop(str(error))
        raise


def _say(text: str) -> None:
    """Print; a reader that has seen enough (`| head`) is no failure of ours."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit does not try again


def _text(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=2)


def _stop(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(2)


def _become(command: list[str]) -> None:
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - this process becomes the program
