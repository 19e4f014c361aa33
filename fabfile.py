"""`fab status`, `fab doctor`, `fab logs HOST`, …: the operator's view of an environment, and its verbs.

Every task takes `--target` (dev, local, lab, …: a folder below inventory/). Run from the root of the checkout. What is
behind the tasks is in `iop.ops`; deploy and rollback are the playbooks'.
"""

from __future__ import annotations

import contextlib
import getpass
import json as json_text
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "runtime"))  # this checkout's code, whatever is installed

from fabric import Connection, task  # noqa: E402 - after the path above
from rich.console import Console  # noqa: E402
from rich.live import Live  # noqa: E402

from iop.admin.client import AdminClient, AdminRefused, AdminUnreachable  # noqa: E402
from iop.admin.forwards import Forwards  # noqa: E402
from iop.admin.ssh_trouble import SshTrouble  # noqa: E402
from iop.config.inventory import Inventory, InventoryError, load_inventory  # noqa: E402
from iop.ops import picture, report  # noqa: E402
from iop.ops.doctor import diagnose  # noqa: E402
from iop.ops.facts import gather  # noqa: E402
from iop.ops.logs import command as log_command  # noqa: E402
from iop.ops.shell import Shell  # noqa: E402
from iop.ops.token import NoToken, admin_token  # noqa: E402

_T = TypeVar("_T")
TARGET = {"target": "the environment: a folder below inventory/ (dev)"}
HOST = {"host": "a host of the inventory: mac, gx10 or onexplayer"}
TOKEN = {"token-file": "file with the admin token (where the deploy keeps it)"}


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
    with contextlib.closing(Forwards(inventory)) as forwards:
        if watch and not json:
            _watch(inventory, forwards)
            return
        found = report.status(gather(inventory, forwards))
    if json:
        _say(json_text.dumps(found, indent=2))
    else:
        _console().print(picture.status(found))
    sys.exit(0 if found["well"] else 1)


@task(help={**TARGET, "json": "the findings as one JSON object"})
def doctor(
    _connection: Connection,
    target: str = "dev",
    json: bool = False,  # noqa: FBT001, FBT002 - a flag of the command line
) -> None:
    """Why not 10: what stands in the way, each with its next command; exit 0 when every slot takes work."""
    try:
        inventory = load_inventory(target, ROOT)
    except InventoryError as error:
        if not (ROOT / "inventory" / target).is_dir():
            _stop(str(error))
        found = report.unusable(target, str(error))
    else:
        with contextlib.closing(Forwards(inventory)) as forwards:
            facts = gather(inventory, forwards, deep=True)
        found = report.diagnosis(facts, diagnose(facts))
    if json:
        _say(json_text.dumps(found, indent=2))
    else:
        _console().print(picture.doctor(found), soft_wrap=True)  # a command stays in one line, to be copied
    sys.exit(0 if found["well"] else 1)


@task(
    help={
        **TARGET,
        **HOST,
        "service": "only the log of this service, as fab status names it",
        "follow": "go on until Ctrl-C",
        "lines": "how many of the last lines (50)",
    },
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
    shell = _shell(inventory, host)
    argv = log_command(inventory, host, [service] if service else [], lines, follow=follow)
    # a terminal of its own ends the far program with Ctrl-C; Windows gives none
    options = ["-tt"] if follow and sys.stdin.isatty() and not shell.host.windows else []
    _become(shell.command(argv, *options))


@task(
    help={
        **TARGET,
        **HOST,
        **TOKEN,
        "lease": "seconds until it ends by itself (3600)",
        "reason": "why, for whoever reads the status",
        "by": "who (you@this machine)",
    },
)
def drain(
    _connection: Connection,
    host: str,
    target: str = "dev",
    lease: float = 3600.0,
    reason: str = "by hand",
    by: str = "",
    token_file: str = "",
) -> None:
    """Give a host's node nothing new; what runs goes on. Ends by `undrain`, or when the lease does."""
    who = by or f"{getpass.getuser()}@{socket.gethostname()}"
    node, inventory = _node(target, host)
    _change(inventory, token_file, lambda admin: admin.drain(node, lease_s=lease, by=who, reason=reason))
    _say(f"{node} is drained for {lease:.0f} s; what runs goes on. undo: fab undrain {host} --target {target}")


@task(help={**TARGET, **HOST, **TOKEN})
def undrain(_connection: Connection, host: str, target: str = "dev", token_file: str = "") -> None:
    """End the drain of a host's node; no drain is fine."""
    node, inventory = _node(target, host)
    _change(inventory, token_file, lambda admin: admin.undrain(node))
    _say(f"{node} takes work again")


@task(help=TARGET)
def smoke(_connection: Connection, target: str = "dev") -> None:
    """Prove the running environment: `pytest smoke/ --target …`."""
    _become([sys.executable, "-m", "pytest", "smoke/", "--target", target])


@task(
    help={
        **TARGET,
        "check": "only tell what would change",
        "extra": 'further options of ansible-playbook, as in --extra="--limit gx10"',
    }
)
def deploy(
    _connection: Connection,
    target: str = "dev",
    check: bool = False,  # noqa: FBT001, FBT002 - a flag of the command line
    extra: str = "",
) -> None:
    """Deploy and prove it: `ansible-playbook playbooks/dev-runtime.yml`."""
    _playbook("dev-runtime", target, [*(["--check", "--diff"] if check else []), *shlex.split(extra)])


@task(help={**TARGET, "host": "only this host (all, nodes first)", "extra": "further options of ansible-playbook"})
def rollback(_connection: Connection, target: str = "dev", host: str = "", extra: str = "") -> None:
    """Back to the release that ran before: `ansible-playbook playbooks/rollback.yml`."""
    _playbook("rollback", target, [*(["--limit", host] if host else []), *shlex.split(extra)])


def _watch(inventory: Inventory, forwards: Forwards) -> None:
    with contextlib.suppress(KeyboardInterrupt), Live(console=_console(), auto_refresh=False) as live:
        while True:
            live.update(picture.status(report.status(gather(inventory, forwards))), refresh=True)
            time.sleep(1)


def _change(inventory: Inventory, token_file: str, ask: Callable[[AdminClient], object]) -> None:
    """Ask the Edge for a state change; what goes wrong is told, and exits 1."""
    with contextlib.closing(Forwards(inventory)) as forwards:
        try:
            token, urls = admin_token(inventory, token_file), forwards.open()
            with AdminClient(urls.admin, token=token) as admin:
                ask(admin)
        except (NoToken, SshTrouble) as error:
            _stop(str(error), code=1)
        except AdminUnreachable as error:
            _stop(f"{forwards.explain('admin', error)}\n  next: fab doctor --target {inventory.env}", code=1)
        except AdminRefused as error:
            _stop(f"the Edge refused: {error}", code=1)


def _node(target: str, host: str) -> tuple[str, Inventory]:
    inventory = _inventory(target)
    return _known(lambda: inventory.host(host)).node_id, inventory


def _shell(inventory: Inventory, host: str) -> Shell:
    return _known(lambda: Shell(inventory, host))


def _inventory(target: str) -> Inventory:
    return _known(lambda: load_inventory(target, ROOT))


def _known(ask: Callable[[], _T]) -> _T:
    """What the inventory says; what it cannot say ends the program as a wrong call."""
    try:
        return ask()
    except InventoryError as error:
        _stop(str(error))


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 140)


def _say(text: str) -> None:
    """Print; a reader that has seen enough (`| head`) is no failure of ours."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit does not try again


def _stop(message: str, code: int = 2) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)


def _playbook(name: str, target: str, options: list[str]) -> NoReturn:
    inventory = str(ROOT / "inventory" / _inventory(target).env)
    _become([sys.executable, str(ROOT / "playbooks" / "launch.py"), name, "-i", inventory, *options])


def _become(command: list[str]) -> NoReturn:
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606 - this process becomes the program
