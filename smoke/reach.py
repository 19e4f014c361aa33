"""How a run reaches the system: addresses on this machine, the API key, and what stands in the way of both.

The process that reports opens the forwards to a remote Edge, once; workers get the addresses. A key comes from a file
or the environment, never from the command line, and is in no record.
"""

import os

import httpx
import msgspec

from iop.admin.forwards import Forwards
from iop.admin.ssh_trouble import SshTrouble
from iop.config.inventory import Inventory
from iop_release import ports

KEY_VARIABLE = "IOP_API_KEY"
#: seconds for the first answer
ANSWER_S = 30.0


class Reach(msgspec.Struct, frozen=True):
    """Base URLs (`openai` ends in /v1) and, when nothing can be proved at all, why."""

    openai: str
    admin: str
    control: str
    trouble: str = ""


def plain(inventory: Inventory) -> Reach:
    """The inventory's own addresses: of loopback, or seen from the Edge's host."""
    return Reach(inventory.openai_url, inventory.admin_url, inventory.control_url)


def reach(inventory: Inventory, forwards: Forwards) -> Reach:
    """Open what is needed and try the first door. Raises nothing: trouble is told in the result."""
    try:
        urls = forwards.open()
        key = api_key(inventory)
    except (SshTrouble, OSError, ValueError) as error:
        return msgspec.structs.replace(plain(inventory), trouble=str(error))
    found = Reach(urls.openai, urls.admin, urls.control)
    return msgspec.structs.replace(found, trouble=_first_door(inventory, forwards, found, key))


def api_key(inventory: Inventory) -> str | None:
    """The key that clients show, None where none is known. Raises OSError, ValueError for a file that holds none."""
    if given := os.environ.get(KEY_VARIABLE, "").strip():
        return given
    if inventory.smoke_api_key_file is None:
        return None
    path = inventory.root / inventory.smoke_api_key_file
    key = path.read_text(encoding="utf-8").strip()
    if not key.isascii() or not key.isprintable() or not key:
        raise ValueError(f"{path} holds no API key: expected one line of printable ASCII")
    return key


def where(inventory: Inventory) -> dict[str, str]:
    """Which machines a run is about: host -> address; empty on loopback."""
    return {host.name: host.address for host in inventory.hosts if host.address is not None}


def edge_command(inventory: Inventory) -> list[str]:
    """The deployed `edge` with the live config, as it is started on the Edge's host."""
    home = inventory.edge_home
    if inventory.kind == "loopback":
        return [str(home / "bin" / "edge"), "--config", str(home / "edge.yaml")]
    python = inventory.host_root(inventory.edge_host) / "current" / "venv" / "bin" / "python"
    return [str(python), "-I", "-m", "iop.commands.edge", "--config", str(home / "edge.yaml")]


def token_options(inventory: Inventory) -> list[str]:
    """How that command shows the admin token; on loopback it finds it by itself."""
    if inventory.kind == "loopback":
        return []
    return ["--token-file", str(inventory.host_root(inventory.edge_host) / "shared" / "tokens" / "admin.token")]


def _first_door(inventory: Inventory, forwards: Forwards, found: Reach, key: str | None) -> str:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{found.openai}/models", headers=headers, timeout=ANSWER_S, trust_env=False)
    except httpx.TransportError as error:
        if inventory.kind == "remote":
            return forwards.explain("openai", error)
        if isinstance(error, httpx.ProtocolError):
            return _stranger(inventory, f"{type(error).__name__}: {error}")
        said = f"{found.openai} does not answer: {str(error) or type(error).__name__}"
        return f"{said}; is {inventory.env} deployed, and does it run? (fab status --target {inventory.env})"
    except httpx.HTTPError as error:
        return _stranger(inventory, f"{type(error).__name__}: {error}")
    if "x-request-id" not in answer.headers:  # every answer of an Edge has it
        return _stranger(inventory, f"HTTP {answer.status_code}")
    if answer.status_code in {401, 403}:
        told = "refuses the key it was shown" if key else "asks for a key"
        ways = f"set {KEY_VARIABLE}, or `smoke_api_key_file` in the inventory"
        return f"the OpenAI API of {inventory.edge_id} {told}: {ways}"
    return ""


def _stranger(inventory: Inventory, answer: str) -> str:
    """Somebody else holds the port; who it is, where that can be seen."""
    port = inventory.ports.openai
    holder = ports.owner(port) if inventory.host(inventory.edge_host).here else None
    who = f"{holder.shown} (pid {holder.pid})" if holder else "another program"
    return f"port {port} is taken: {who} answers there ({answer}), and it is no Edge of iop"
