"""Which providers may serve which request: found once per config, so that asking for a slot looks nothing up anew."""

from collections.abc import Mapping

from iop.domain import refusals
from iop.domain.errors import IopError
from iop.domain.fleet import Fleet, Provider
from iop.domain.line import Request


class Routes:
    """`models` maps a pool model id to its provider ids."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.models: Mapping[str, tuple[str, ...]] = {}
        self._of_model: dict[str, tuple[Provider, ...]] = {}

    def configure(self, models: Mapping[str, tuple[str, ...]]) -> None:
        """Take new models over, once the fleet knows which providers are declared."""
        self.models = {model: tuple(provider_ids) for model, provider_ids in models.items()}
        self._of_model = {model: self._fleet.declared(provider_ids) for model, provider_ids in self.models.items()}

    def candidates(self, request: Request) -> tuple[Provider, ...]:
        """Return the declared providers that may still serve this request."""
        found = self._of_model.get(request.model, ())
        if request.only is not None:
            named = self._fleet.declared((request.only,))
            found = named if request.is_check else tuple(provider for provider in named if provider in found)
        if request.failures:
            found = tuple(provider for provider in found if provider.id not in request.failures)
        return found

    def nobody_left(self, request: Request) -> IopError:
        """Say why this request has no candidate."""
        if request.only is not None and request.is_check:
            return refusals.provider_gone(request.only)
        if request.model not in self.models:
            return refusals.model_gone(request.model)
        if request.only is not None and not request.failures:
            return refusals.response_owner_gone(request.only)
        return refusals.unreachable(request.model, request.failures)
