"""The ports of a remote Edge and Control Plane, as addresses on this machine: ssh forwards.

Only the node link of an environment can be reached from elsewhere. Whoever asks the OpenAI, admin or Control Plane port
does it through one of these. On loopback the addresses are the inventory's own and nothing is started.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from iop.admin.ssh import door
from iop.admin.tunnel import Tunnel
from iop.config.inventory import Inventory
from iop.config.inventory_hosts import LOOPBACK

#: seconds for the forwards to a host to stand; a login may take some on a slow one
PATIENCE_S = 20.0

Port = Literal["openai", "admin", "control"]


@dataclass(frozen=True, slots=True)
class Urls:
    """Base URLs as this machine reaches them; `openai` ends in /v1."""

    openai: str
    admin: str
    control: str


class Forwards:
    """`with Forwards(inventory) as urls: …`. Raises `SshTrouble` when a host cannot be reached.

    The ssh processes end with this process, however it ends. `urls` are valid until `close`; `open` again after a loss
    makes new ones.
    """

    def __init__(self, inventory: Inventory, *, patience: float = PATIENCE_S) -> None:
        self._inventory = inventory
        self._patience = patience
        self._tunnels: list[Tunnel] = []
        self._stands = inventory.kind == "loopback"
        self.urls = Urls(inventory.openai_url, inventory.admin_url, inventory.control_url)

    def __enter__(self) -> Urls:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Urls:
        """Make the forwards stand, unless they do. Raises `SshTrouble`."""
        if self._stands and all(one.alive for one in self._tunnels):
            return self.urls
        self.close()
        try:
            ports = self._opened()
        except BaseException:
            self.close()
            raise
        self.urls = Urls(
            f"http://{LOOPBACK}:{ports['openai']}/v1",
            f"http://{LOOPBACK}:{ports['admin']}",
            f"http://{LOOPBACK}:{ports['control']}",
        )
        self._stands = True
        return self.urls

    def close(self) -> None:
        """End the ssh processes."""
        for tunnel in self._tunnels:
            tunnel.close()
        self._tunnels = []
        self._stands = self._inventory.kind == "loopback"

    def explain(self, port: Port, error: object) -> str:
        """Say why a call through a forward failed: ssh ended, or nothing listens there; else the error's own words."""
        host = self._inventory.control_host if port == "control" else self._inventory.edge_host
        for tunnel in self._tunnels:
            if tunnel.door.name == host and (why := tunnel.why(getattr(self._inventory.ports, port))):
                return why
        return str(error)

    def _opened(self) -> dict[Port, int]:
        wanted: dict[str, list[Port]] = {self._inventory.edge_host: ["openai", "admin"]}
        wanted.setdefault(self._inventory.control_host, []).append("control")
        local: dict[Port, int] = {}
        for name, ports in wanted.items():
            far = [int(getattr(self._inventory.ports, port)) for port in ports]
            if self._inventory.host(name).here:  # its ports are at hand
                local |= dict(zip(ports, far, strict=True))
                continue
            self._tunnels.append(Tunnel(door(self._inventory, name)))
            local |= dict(zip(ports, self._tunnels[-1].open(far, self._patience), strict=True))
        return local
