"""A host of an environment: what runs on it, and how it is reached when it is another machine."""

from ipaddress import ip_address
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from iop.config.resources import ProviderType

LOOPBACK = "127.0.0.1"
#: the file that makes a host a real one, below the inventory's folder
CONNECTION_FILE = "host_vars/{host}/connection.yml"
#: the file that says what runs on it
HOST_FILE = "host_vars/{host}/node.yml"

Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Capacity = Annotated[int, Field(strict=True, ge=1)]
#: of an environment or a host: it becomes part of paths and of services' names, and an argument of ssh
Name = Annotated[str, Field(strict=True, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Word = Annotated[str, Field(strict=True, min_length=1, pattern=r"^[^\s'\"]+$")]


class InventoryPart(BaseModel):
    """Frozen; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Provider(InventoryPart):
    """A provider as the inventory declares it; its engine listens on this port of its node's host."""

    id: str
    type: ProviderType
    category: str
    capacity: Capacity
    engine_port: Port
    on_disconnect: Literal["cancel", "cancel_streams", "finish"] = "cancel"

    @property
    def endpoint(self) -> str:
        """Base URL of the engine, as its node sees it."""
        return f"http://{LOOPBACK}:{self.engine_port}/v1"


class CliTarget(InventoryPart):
    """A CLI agent of a node."""

    kind: Literal["text", "codex"]
    command: tuple[str, ...]


class Host(InventoryPart):
    """A host and the one node on it. It is remote when it has an `address`, else it is this machine."""

    name: Name
    node_id: str
    alias: str
    platform: Literal["macos", "linux", "windows"]
    arch: str
    service_manager: Literal["supervisor", "systemd", "launchd", "windows_task"]
    cli_targets: dict[str, CliTarget] = {}
    providers: tuple[Provider, ...] = ()

    address: Word | None = None
    reached_by: Literal["ssh", "local"] = "ssh"  # local: it is the machine that deploys
    user: Word | None = None  # the account that deploys
    ssh_port: Port | None = None  # none = what the client's config says
    python: str | None = None  # the host's own interpreter
    root: str | None = None  # `host_root`: the folder of its releases
    service_user: Word | None = None  # the account that services run as
    edge_address: Word | None = None  # the Edge's host as this host sees it
    ssh_config: str | None = None  # an OpenSSH client config, from the root of the checkout; none = the user's own

    @property
    def remote(self) -> bool:
        """Whether it is a real host, with a place of its own in the network."""
        return self.address is not None

    @property
    def here(self) -> bool:
        """Whether its files are at hand: it is this machine, real or on loopback."""
        return not self.remote or self.reached_by == "local"

    @property
    def root_path(self) -> PurePath | None:
        """`root` in the host's own notation."""
        if self.root is None:
            return None
        return PureWindowsPath(self.root) if self.windows else PurePosixPath(self.root)

    @property
    def windows(self) -> bool:
        """Whether its shell and paths are those of Windows; a Linux system may stand in for the `platform`."""
        return self.service_manager == "windows_task"

    @model_validator(mode="after")
    def _whole_connection(self) -> Self:
        if not self.remote:
            if self.service_manager != "supervisor":
                raise ValueError(f"{self.name} has service_manager {self.service_manager} but no address")
            return self
        spelt = {"user": self.user, "python": self.python, "host_root": self.root}
        if lacking := [name for name, value in spelt.items() if not value]:
            raise ValueError(f"{self.name} has an address, so it needs {', '.join(lacking)} as well")
        if self.root_path is not None and not self.root_path.is_absolute():
            raise ValueError(f"host_root of {self.name} must be an absolute path, not {self.root!r}")
        return self


def listen_for_nodes(hosts: tuple[Host, ...], edge_host: str) -> str:
    """The host part of the address that the Edge listens on for nodes.

    All nodes are here: loopback. They all dial the same IP address: that one. Else all addresses of the Edge's host.
    """
    dialled = {host.edge_address or LOOPBACK for host in hosts if host.name != edge_host}
    if dialled <= {LOOPBACK}:
        return LOOPBACK
    only = dialled.pop() if len(dialled) == 1 else ""
    own = next(host.edge_address for host in hosts if host.name == edge_host)
    return only if _is_ip(only) and own in {only, None} else "0.0.0.0"  # noqa: S104 - reached by TLS and tokens only


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def unlike(hosts: tuple[Host, ...], edge_host: str) -> list[str]:
    """What is wrong with the connections of the hosts taken together, in words."""
    missing = [host.name for host in hosts if not host.remote]
    if len(missing) == len(hosts):
        return []
    if missing:
        there = ", ".join(host.name for host in hosts if host.remote)
        lacking = ", ".join(missing)
        return [
            f"{there} is reached by ssh, but {lacking} has no address: an environment is this machine or real hosts, "
            "not both. Write " + " and ".join(CONNECTION_FILE.format(host=name) for name in missing)
        ]
    found = []
    doors: dict[tuple[str | None, int | None], str] = {}
    for host in hosts:
        door = (host.address, host.ssh_port)
        if door in doors:
            found.append(f"{host.name} has the address of {doors[door]}: {host.address}")
        doors.setdefault(door, host.name)
        if host.name != edge_host and host.edge_address in {None, "localhost", "::1", LOOPBACK}:
            found.append(f"{host.name} needs edge_address: the address of {edge_host} as {host.name} sees it")
    return found
