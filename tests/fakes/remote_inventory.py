"""A remote environment of three hosts, as the lab is, without its files."""

from pathlib import Path
from typing import Any

from iop.config.inventory import Inventory

NAMES = ("gx10", "onexplayer", "mac")


def remote(checkout: Path, ports: dict[str, int] | None = None, **changes: Any) -> Inventory:
    """Three real hosts with the addresses `gx10.test`, …; `changes` go to every host. `mac` carries the Edge."""
    hosts = [
        {
            "name": name, "node_id": f"{name}-node", "alias": name, "platform": "linux", "arch": "arm64",
            "service_manager": "systemd", "address": f"{name}.test", "user": "lab", "python": "/usr/bin/python3",
            "root": "/srv/iop", "edge_address": "127.0.0.1" if name == "mac" else "mac.test",
            "providers": [
                {"id": f"{name}-p", "type": "other", "category": "local_inference", "capacity": 3, "engine_port": 8002}
            ],
            **changes,
        }
        for name in NAMES
    ]  # fmt: skip
    return Inventory.model_validate(
        {
            "env": "lab", "root": checkout, "edge_id": "edge-lab", "edge_host": "mac", "control_host": "mac",
            "builder": "runner", "hosts": hosts, "smoke_model": "m", "engine_kind": "simulator",
            "ports": ports or {"control": 18001, "openai": 18083, "nodes": 18084, "admin": 19093},
            "models": [{"id": "m", "providers": {f"{name}-p": "x" for name in NAMES}}],
        }
    )  # fmt: skip
