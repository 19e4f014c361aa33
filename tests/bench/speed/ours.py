"""Our two processes as a peer: an Edge and one Node of this checkout, with keys, metrics, events and full admission."""

import hashlib
import sys
from typing import Any

import yaml

from tests.bench.speed.place import KEY, MODEL, Command, Place
from tests.bench.speed.tools import ROOT

#: of an engine without a limit: more than any measure asks for at once
ROOMY = 1500


def edge_and_node(place: Place, level: str) -> list[Command]:
    """The commands that serve there; `level` is that of both logs."""
    edge = place.write("edge.yaml", yaml.safe_dump(_edge(place)))
    node = {
        "node": {"id": "n1"},
        "edge": {"addr": f"127.0.0.1:{place.spare[0]}"},
        "state_dir": str(place.folder / "state"),
    }
    configs = {"edge": edge, "node": place.write("node.yaml", yaml.safe_dump(node))}
    env = {"PYTHONPATH": str(ROOT / "runtime")}
    return [
        Command([sys.executable, "-m", f"iop.commands.{name}", "--config", path, "serve", "--log-level", level], env)
        for name, path in configs.items()
    ]


def _edge(place: Place) -> dict[str, Any]:
    names = [f"e{number}" for number in range(len(place.engines))]
    capacities = place.capacities or [ROOMY] * len(names)
    instances = [
        {"name": name, "enabled": True, "provider": "other", "endpoint": f"{engine}/v1"}
        for name, engine in zip(names, place.engines, strict=True)
    ]
    providers = [
        {"id": name, "type": "other", "category": "local_inference", "adapter": name, "capacity": capacity,
         "on_disconnect": "cancel"}
        for name, capacity in zip(names, capacities, strict=True)
    ]  # fmt: skip
    return {
        "edge": {"id": "edge-bench"},
        "listen": {
            "openai": f"127.0.0.1:{place.port}",
            "nodes": f"127.0.0.1:{place.spare[0]}",
            "admin": f"127.0.0.1:{place.spare[1]}",
        },
        "auth": {"api_keys": [{"name": "bench", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]},
        "queue": {"max_waiting": 20_000},
        "nodes": [{"id": "n1", "adapters": {"openai_compat_instances": instances}, "providers": providers}],
        "models": [{"id": MODEL, "providers": dict.fromkeys(names, MODEL)}],
    }
