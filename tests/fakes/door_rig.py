"""A door with a provider or two behind it."""

import asyncio

from iop.domain.effects import Effects
from iop.domain.specs import LineBounds, PoolSpec, ProviderSpec
from iop.edge.door import Door


class DoorRig:
    """A door over providers of one slot each, connected and up: `p` on node `n`, any other on a node of its name."""

    def __init__(self, bounds: LineBounds, wedge_after: float = 120.0, providers: str = "p") -> None:
        self.published: list[str] = []
        self.door = Door(loop=asyncio.get_running_loop(), publish=self._publish)
        nodes = {name: "n" if name == "p" else name for name in providers}
        specs = tuple(ProviderSpec(name, node, 1) for name, node in nodes.items())
        self.door.configure(PoolSpec(specs, {"m": tuple(providers)}, bounds, wedge_after))
        for name, node in nodes.items():
            self.door.node_connected(node, 1, ())
            self.door.provider_health(name, up=True, reason=None)

    def _publish(self, effects: Effects) -> None:
        self.published += [f"{e.type.value}:{e.request_id}" for e in effects if e.request_id]
