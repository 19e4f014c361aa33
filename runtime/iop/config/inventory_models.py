"""A public model as the inventory declares it."""

from typing import Literal, Self

from pydantic import model_validator

from iop.config.inventory_hosts import InventoryPart


class DirectRoute(InventoryPart):
    """A model that goes straight to a CLI agent of one node."""

    node: str
    adapter: Literal["cli"]
    target: str


class Model(InventoryPart):
    """A public model: `providers` maps provider ids to the engine's model name, `direct` names an agent."""

    id: str
    providers: dict[str, str] | None = None
    direct: DirectRoute | None = None

    @model_validator(mode="after")
    def _one_route(self) -> Self:
        if (self.providers is None) == (self.direct is None):
            raise ValueError("a model has either providers or direct")
        return self
