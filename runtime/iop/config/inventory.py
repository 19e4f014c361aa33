"""The inventory of an environment, read once for everyone: Ansible's derived variables, fab, smoke.

The files below `inventory/<target>/` are read through `ansible-inventory --list`, so that Ansible's own rules of
merging apply. Values that are shared are literals; a template or a vault blob there is refused.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, ValidationError, ValidationInfo, field_validator, model_validator

from iop.config.inventory_engines import EngineKind, deployed_kind, loopback_banner, remote_banner
from iop.config.inventory_hosts import LOOPBACK, Host, InventoryPart, Name, Port, Provider, unlike
from iop.config.inventory_listing import InventoryError, one_engine_kind, values
from iop.config.inventory_models import Model
from iop.config.inventory_names import misspelt
from iop.config.inventory_source import environments, locate, place_of, unreadable
from iop.config.scalars import Duration

__all__ = ["Inventory", "InventoryError", "Ports", "find_checkout", "load_inventory", "parse"]


class Ports(InventoryPart):
    """The four listening ports of the environment."""

    control: Port
    openai: Port
    nodes: Port
    admin: Port


class Inventory(InventoryPart):
    """One environment. Hosts are in the order of a deploy.

    URLs and addresses of the Edge and the Control Plane are those on their own hosts: nothing but the node link is
    reachable from elsewhere.
    """

    env: Name
    root: Path  # the checkout
    edge_id: str
    edge_host: str
    control_host: str
    builder: str  # the host that builds; on remote it need not be one of `hosts`
    ports: Ports
    hosts: tuple[Host, ...]
    models: tuple[Model, ...]
    smoke_model: str
    engine_kind: EngineKind
    smoke_api_key_file: str | None = None  # from the root of the checkout; for an Edge that asks for keys
    smoke_disruptive: StrictBool = False  # whether `pytest smoke/ -m disruptive` may take nodes away here
    # for the playbooks alone, checked here so that a deploy does not fail over them half way
    keep_releases: Annotated[int, Field(strict=True, ge=1)] | None = None
    simulator_tokens_per_second: Annotated[float, Field(strict=True, gt=0)] | None = None
    drain_wait: Duration | None = None

    @property
    def kind(self) -> Literal["loopback", "remote"]:
        """Whether the hosts are real ones, reached by ssh."""
        return "remote" if all(host.remote for host in self.hosts) else "loopback"

    @property
    def home(self) -> Path:
        """The build folder of the environment, on this machine."""
        return self.root / "build" / f"{self.env}-runtime"

    @property
    def edge_home(self) -> PurePath:
        """The folder of the live `edge.yaml`, on the Edge's host."""
        return self.home if self.host(self.edge_host).here else self.host_root(self.edge_host) / "shared"

    @property
    def openai_url(self) -> str:
        """Base URL of the OpenAI API, for a client's `base_url`."""
        return f"http://{LOOPBACK}:{self.ports.openai}/v1"

    @property
    def admin_url(self) -> str:
        """Root of the Edge's admin API."""
        return f"http://{LOOPBACK}:{self.ports.admin}"

    @property
    def control_url(self) -> str:
        """Root of the Control Plane."""
        return f"http://{LOOPBACK}:{self.ports.control}"

    @property
    def providers(self) -> dict[str, Provider]:
        """All declared providers by id."""
        return {provider.id: provider for host in self.hosts for provider in host.providers}

    @property
    def capacity(self) -> int:
        """All declared slots together."""
        return sum(provider.capacity for provider in self.providers.values())

    @property
    def banner(self) -> str:
        """The first line of everything that reports on this environment; empty for real hosts with their engines."""
        return (loopback_banner if self.kind == "loopback" else remote_banner)(self.engine_kind)

    def host(self, name: str) -> Host:
        """The host of that name. Raises `InventoryError`."""
        for one in self.hosts:
            if one.name == name:
                return one
        raise InventoryError(f"no host {name!r} (known: {', '.join(one.name for one in self.hosts)})")

    def host_root(self, name: str) -> PurePath:
        """The folder of a host's releases on that host (loopback: below the build folder)."""
        return self.host(name).root_path or self.home / "hosts" / name

    def nodes_addr(self, name: str) -> str:
        """`host:port` that the node of this host dials."""
        address = self.host(name).edge_address or LOOPBACK
        return f"[{address}]:{self.ports.nodes}" if ":" in address else f"{address}:{self.ports.nodes}"

    def ssh_config(self, name: str) -> Path | None:
        """The OpenSSH client config for this host; None = the user's own."""
        given = self.host(name).ssh_config
        return self.root / given if given else None

    def service_user(self, name: str) -> str | None:
        """The account that a host's services run as; None on loopback: whoever deploys."""
        host = self.host(name)
        return host.service_user or host.user

    @model_validator(mode="after")
    def _hosts_fit(self) -> Self:
        names = [host.name for host in self.hosts]
        for group, name in (("edge", self.edge_host), ("control_plane", self.control_host)):
            if name not in names:
                raise ValueError(f"the host {name} of the group `{group}` is not in the group `nodes`")
        if wrong := unlike(self.hosts, self.edge_host):
            raise ValueError("; ".join(wrong))
        return self

    @field_validator("smoke_model")
    @classmethod
    def _smoke_model_is_served(cls, name: str, info: ValidationInfo) -> str:
        if "hosts" not in info.data or "models" not in info.data:
            return name  # these have findings of their own
        declared = {provider.id for host in info.data["hosts"] for provider in host.providers}
        served = {one for model in info.data["models"] if model.id == name for one in model.providers or {}}
        wrong = [f"{one} is missing" for one in sorted(declared - served)]
        wrong += [f"{one} is not declared" for one in sorted(served - declared)]
        if wrong:
            raise ValueError(f"must be a model that every provider serves: {', '.join(wrong)}")
        return name


def load_inventory(target: str, root: Path | None = None, engine_kind: EngineKind | None = None) -> Inventory:
    """Read `inventory/<target>` of the checkout `root` (default: the one around the working directory).

    What stands behind the providers is `engine_kind`, else what the last deploy chose, else what the inventory says.
    Raises `InventoryError`. Runs `ansible-inventory`, which takes about a second.
    """
    checkout = root or find_checkout(Path.cwd())
    folder = checkout / "inventory" / target
    if not folder.is_dir():
        raise InventoryError(f"no environment {target!r} (known: {', '.join(environments(checkout))})")
    broken = unreadable(folder)
    if broken:
        raise InventoryError("\n".join(broken))
    listing = _listing(checkout, folder)
    if names := list(misspelt(listing)):
        raise InventoryError(
            "\n".join(
                f"{place_of(folder, name)}: {name}: nobody reads this; is {meant} meant?" for name, meant in names
            )
        )
    try:
        found = parse(listing, checkout, os.environ)
    except ValidationError as error:
        raise InventoryError(_in_words(error, folder)) from error
    if found.env != folder.name:  # else two environments would share a build folder, and stop each other
        place = locate(folder, ["env"])
        raise InventoryError(f"{place}: deploy_env is {found.env!r} in inventory/{folder.name}: name it as the folder")
    chosen = engine_kind or deployed_kind(found.home)
    return found.model_copy(update={"engine_kind": chosen}) if chosen else found


def find_checkout(start: Path) -> Path:
    """The nearest folder at or above `start` with `inventory/` and `ansible.cfg`. Raises `InventoryError`."""
    for folder in (start, *start.parents):
        if (folder / "ansible.cfg").is_file() and (folder / "inventory").is_dir():
            return folder
    raise InventoryError(f"{start} is not inside a checkout of iop: go to the folder with ansible.cfg")


def parse(listing: Mapping[str, Any], root: Path, environ: Mapping[str, str]) -> Inventory:
    """Make an `Inventory` of what `ansible-inventory --list` prints. Raises `InventoryError`, `ValidationError`."""
    found = Inventory.model_validate({**values(listing, environ), "root": root})
    one_engine_kind(listing)
    return found


def _listing(checkout: Path, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "ansible", "inventory", "-i", str(folder), "--list"]
    env = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_CONFIG": str(checkout / "ansible.cfg")}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command, cwd=checkout, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        if "No module named ansible" in done.stderr:
            raise InventoryError("ansible-core is not installed here: run `make env` and `. .venv/bin/activate`")
        raise InventoryError(f"ansible-inventory cannot read {folder}:\n{done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _in_words(error: ValidationError, folder: Path) -> str:
    lines = []
    for one in error.errors():
        path, got = ".".join(str(part) for part in one["loc"]), one.get("input")
        told = "" if isinstance(got, dict) else f" (got {got!r})"[:200]
        place = f"{path}: " if path else ""
        lines.append(f"{locate(folder, one['loc'])}: {place}{one['msg'].removeprefix('Value error, ')}{told}")
    return "\n".join(lines)
