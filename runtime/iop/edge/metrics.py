"""`GET /metrics`: what the status shows and what was counted, in the formats of Prometheus.

A reader of what happens, as the feed is: neither admission nor the links know it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from iop.domain.errors import BadRequest
from iop.edge.families import families
from iop.edge.tallies import Tallies

Status = Callable[[], Mapping[str, Any]]


class Metrics(Collector):
    """What a scrape collects. `status` and `turned_away` tell the present; `tallies` what has happened."""

    def __init__(self, status: Status, turned_away: Callable[[], Mapping[str, int]], tallies: Tallies) -> None:
        self._status = status
        self._turned_away = turned_away
        self._tallies = tallies

    def collect(self) -> Iterable[Metric]:
        """Make every family of the Edge."""
        return families(self._status(), self._turned_away(), self._tallies)

    def handler(self) -> Handler:
        """Return the handler of `GET /metrics`: text or OpenMetrics by `Accept`, compressed by `Accept-Encoding`,
        `?name[]=` for some families only. The process's own numbers are added where the system tells them (Linux).
        """
        registry = CollectorRegistry(auto_describe=True)  # `name[]` finds by what is collected now
        registry.register(self)
        ProcessCollector(registry=registry)
        scrape = make_aiohttp_handler(registry)

        async def metrics(request: web.Request) -> web.StreamResponse:
            _check_accept(",".join(request.headers.getall("Accept", [])))
            return await scrape(request)

        return metrics


def _check_accept(accept: str) -> None:
    """Raise BadRequest for what the library falls over, such as a version that is no number."""
    try:
        choose_encoder(accept)
    except (TypeError, ValueError):
        raise BadRequest("The Accept header names no format that there is; leave it out for plain text.") from None
