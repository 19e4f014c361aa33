"""The inventory of an environment, read once for everyone: Ansible's derived variables, fab, smoke.

The files below `inventory/<target>/` are read through `ansible-inventory --list`, so that Ansible's own rules of
merging apply. Values that are shared are literals; a template or a vault blob there is refused.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from iop.config.inventory_engines import EngineKind, deployed_kind, loopback_banner
from iop.config.inventory_source import environments, locate, unreadable
from iop.config.resources import ProviderType

LOOPBACK = "127.0.0.1"
PORT_BASE_VARIABLE = "IOP_PORT_BASE"

Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Capacity = Annotated[int, Field(strict=True, ge=1)]


class InventoryError(Exception):
    """The inventory cannot be used; the text names the file and line where it is known."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ports(_Part):
    """The four listening ports of the environment."""

    control: Port
    openai: Port
    nodes: Port
    admin: Port


class Provider(_Part):
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


class CliTarget(_Part):
    """A CLI agent of a node."""

    kind: Literal["text", "codex"]
    command: tuple[str, ...]


class Host(_Part):
    """A host and the one node on it."""

    name: str
    node_id: str
    alias: str
    platform: Literal["macos", "linux", "windows"]
    arch: str
    service_manager: str
    cli_targets: dict[str, CliTarget] = {}
    providers: tuple[Provider, ...] = ()


class DirectRoute(_Part):
    """A model that goes straight to a CLI agent of one node."""

    node: str
    adapter: Literal["cli"]
    target: str


class Model(_Part):
    """A public model: `providers` maps provider ids to the engine's model name, `direct` names an agent."""

    id: str
    providers: dict[str, str] | None = None
    direct: DirectRoute | None = None

    @model_validator(mode="after")
    def _one_route(self) -> Self:
        if (self.providers is None) == (self.direct is None):
            raise ValueError("a model has either providers or direct")
        return self


class Inventory(_Part):
    """One environment. Hosts are in the order of a deploy."""

    env: str
    kind: Literal["loopback", "remote"]
    root: Path  # the checkout
    edge_id: str
    ports: Ports
    hosts: tuple[Host, ...]
    models: tuple[Model, ...]
    smoke_model: str
    engine_kind: EngineKind

    @property
    def home(self) -> Path:
        """The build folder of the environment."""
        return self.root / "build" / f"{self.env}-runtime"

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
    def nodes_addr(self) -> str:
        """`host:port` that nodes dial."""
        return f"{LOOPBACK}:{self.ports.nodes}"

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
        """The first line of everything that reports on this environment; empty for real hosts."""
        return loopback_banner(self.engine_kind) if self.kind == "loopback" else ""

    def host_root(self, name: str) -> Path:
        """The folder of a host's releases on that host (loopback: below the build folder)."""
        return self.home / "hosts" / name

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
    try:
        found = parse(_listing(checkout, folder), checkout, os.environ)
    except ValidationError as error:
        raise InventoryError(_in_words(error, folder)) from error
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
    variables: dict[str, dict[str, Any]] = listing["_meta"]["hostvars"]
    names: list[str] = listing.get("nodes", {}).get("hosts", [])
    if not names:
        raise InventoryError("the group `nodes` has no hosts")
    shared = variables[names[0]]
    base = _port_base(shared, environ)
    return Inventory.model_validate(
        {
            "env": _literal(shared, "deploy_env"),
            "kind": _literal(shared, "deploy_kind"),
            "root": root,
            "edge_id": _literal(shared, "edge_id"),
            "ports": {name: _moved(port, base) for name, port in _literal(shared, "ports").items()},
            "hosts": [_host(name, variables[name], base) for name in names],
            "models": _literal(shared, "models"),
            "smoke_model": _literal(shared, "smoke_model"),
            "engine_kind": _literal(shared, "engine_kind"),
        }
    )


def _host(name: str, variables: Mapping[str, Any], base: int) -> dict[str, Any]:
    providers = [
        {**one, "engine_port": _moved(one.get("engine_port"), base)}
        for one in (_literal(variables, "providers") if "providers" in variables else [])
    ]
    return {
        "name": name,
        "node_id": _literal(variables, "node_id"),
        "alias": _literal(variables, "node_alias"),
        "platform": _literal(variables, "node_platform"),
        "arch": _literal(variables, "node_arch"),
        "service_manager": _literal(variables, "service_manager"),
        "cli_targets": _literal(variables, "cli_targets") if "cli_targets" in variables else {},
        "providers": providers,
    }


def _port_base(shared: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """What is added to each port: 0 for environments with fixed ports, else `port_base` or IOP_PORT_BASE."""
    if "port_base" not in shared:
        return 0
    text = environ.get(PORT_BASE_VARIABLE) or str(_literal(shared, "port_base"))
    if not text.isdecimal() or not 1024 <= int(text) <= 65000:
        raise InventoryError(f"{PORT_BASE_VARIABLE} must be a number from 1024 to 65000, not {text!r}")
    return int(text)


def _moved(port: object, base: int) -> object:
    """The port counted from `base`; what is no number is left for the model to refuse."""
    return port + base if isinstance(port, int) and not isinstance(port, bool) else port


def _literal(variables: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any JSON value, checked by the model
    """A shared value. Raises `InventoryError` when it is missing, a template or a vault blob."""
    if name not in variables:
        raise InventoryError(f"the inventory lacks `{name}`")
    text = json.dumps(variables[name])
    if "{{" in text or "__ansible_vault" in text:
        raise InventoryError(f"`{name}` must be a literal: fab and smoke read it without Ansible's templates and vault")
    return variables[name]


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
        path = ".".join(str(part) for part in one["loc"]) or "inventory"
        lines.append(f"{locate(folder, one['loc'])}: {path}: {one['msg']} (got {one.get('input')!r})"[:400])
    return "\n".join(lines)
