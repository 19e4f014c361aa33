"""Every metric family of the Edge, made anew for each scrape: from the status JSON, and from what was counted.

A gauge is read from the very picture that `GET /status` shows, so that the two cannot drift apart, and nothing is kept
up to date while nobody looks. The cost follows what the config declares, not the length of the line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from iop.domain.snapshots import NodeState, ProviderState
from iop.edge.tallies import BOUNDS, Durations, Tallies

Row = tuple[Sequence[str], float]

_TOTALS = (
    "received", "refused", "expired", "abandoned", "admitted", "adopted", "returned", "completed", "failed",
    "cancelled",
)  # fmt: skip
_RUNS = ("admitted", "adopted", "returned", "completed", "failed", "cancelled")
_ENDS = ("completed", "failed", "cancelled")


def families(status: Mapping[str, Any], turned_away: Mapping[str, int], tallies: Tallies) -> Iterator[Metric]:
    """Yield all families. `turned_away` counts refused nodes by code."""
    yield from _edge(status, turned_away)
    yield from _pool(status["totals"])
    yield from _providers(status["provider_snapshots"], tallies)
    yield from _models(status["models"], tallies)
    yield from _nodes(status["nodes"], tallies)
    yield from _http(tallies)


def _edge(status: Mapping[str, Any], turned_away: Mapping[str, int]) -> Iterator[Metric]:
    edge, config = status["edge"], status["config"]
    build = [((edge["id"], edge["version"], edge["release_id"]), 1.0)]
    yield _gauge("iop_build_info", "Which Edge this is: always 1.", ("edge", "version", "release_id"), build)
    yield _gauge("iop_config_generation", "Number of the config in force.", (), [((), config["generation"])])
    refused = config["last_error"] is not None
    yield _gauge("iop_config_refused", "1 while the last candidate config was refused.", (), [((), refused)])
    kinds = [((kind,), count) for kind, count in status["anomalies"].items()]
    yield _counter("iop_anomalies", "Things that must not happen.", ("kind",), kinds)
    codes = [((code,), count) for code, count in turned_away.items()]
    yield _counter("iop_nodes_turned_away", "Links of nodes that were refused.", ("code",), codes)


def _pool(totals: Mapping[str, int]) -> Iterator[Metric]:
    yield _gauge("iop_capacity", "Slots of all declared providers, ready or not.", (), [((), totals["capacity"])])
    yield _gauge("iop_in_flight", "Slots held now.", (), [((), totals["in_flight"])])
    yield _gauge("iop_queued", "Requests waiting in line now.", (), [((), totals["queued"])])
    events = [((name,), totals[name]) for name in _TOTALS]
    yield _counter("iop_pool_requests", "Pool requests by what happened to them.", ("event",), events)


def _providers(entries: Sequence[Mapping[str, Any]], tallies: Tallies) -> Iterator[Metric]:
    labels = ("provider", "node")
    named = [((entry["provider_id"], entry["node_id"]), entry) for entry in entries]
    for name, key, text in (
        ("capacity", "capacity", "Requests the provider takes at once."),
        ("in_flight", "in_flight", "Slots of the provider held now."),
        ("queued", "queued", "Waiting requests that the provider could serve."),
        ("over_by", "over_by", "Slots held above a capacity that was lowered."),
        ("oldest_in_flight_seconds", "oldest_in_flight_s", "Age of the oldest held slot, 0 when none is held."),
    ):
        yield _gauge(f"iop_provider_{name}", text, labels, [(ids, entry[key] or 0) for ids, entry in named])
    states = [((*ids, state), entry["state"] == state) for ids, entry in named for state in ProviderState]
    yield _gauge("iop_provider_state", "1 for the state the provider is in.", (*labels, "state"), states)
    runs = [((*ids, event), entry[event]) for ids, entry in named for event in _RUNS]
    yield _counter("iop_provider_runs", "Slots taken and given back.", (*labels, "event"), runs)
    held = [(ids, tallies.holds[ids[0]]) for ids, _ in named if ids[0] in tallies.holds]
    yield _histogram("iop_hold_seconds", "How long slots were held, to the end of the work.", labels, held)


def _models(entries: Sequence[Mapping[str, Any]], tallies: Tallies) -> Iterator[Metric]:
    pool = [entry for entry in entries if entry["route"] == "pool"]
    label = ("model",)
    waiting = [((entry["id"],), entry["queued"]) for entry in pool]
    yield _gauge("iop_model_queued", "Requests waiting for the model now.", label, waiting)
    oldest = [((entry["id"],), entry["oldest_wait_s"] or 0) for entry in pool]
    yield _gauge("iop_model_oldest_wait_seconds", "How long the first in line has waited, 0 for nobody.", label, oldest)
    counted = [(entry["id"], tally) for entry in pool if (tally := tallies.models.get(entry["id"]))]
    ended = [((model, outcome), n) for model, tally in counted for outcome, n in tally.ended.items()]
    yield _counter("iop_model_requests", "Pool requests that have ended.", ("model", "outcome"), ended)
    codes = [((model, code), n) for model, tally in counted for code, n in tally.codes.items()]
    yield _counter("iop_model_refusals", "Pool requests that got an error and no slot.", ("model", "code"), codes)
    waits = [((model,), tally.waits) for model, tally in counted]
    yield _histogram("iop_wait_seconds", "How long those who got a slot had waited in line for it.", label, waits)
    first = [((entry["id"],), tally.first_bytes) for entry in entries if (tally := tallies.models.get(entry["id"]))]
    yield _histogram("iop_first_byte_seconds", "From a whole request to the begin of its answer.", label, first)


def _nodes(entries: Sequence[Mapping[str, Any]], tallies: Tallies) -> Iterator[Metric]:
    label = ("node",)
    up = [((node["id"],), node["connected"]) for node in entries]
    yield _gauge("iop_node_connected", "1 while the node's link is up.", label, up)
    states = [((node["id"], state), node["state"] == state) for node in entries for state in NodeState]
    yield _gauge("iop_node_state", "1 for the state the node is in.", ("node", "state"), states)
    running = [((node["id"],), node["direct"]["in_flight"]) for node in entries]
    yield _gauge("iop_direct_in_flight", "Direct runs of the node's agents now.", label, running)
    ended = [((node["id"], outcome), node["direct"][outcome]) for node in entries for outcome in _ENDS]
    yield _counter("iop_direct_runs", "Direct runs that have ended.", ("node", "outcome"), ended)
    seconds = [((node["id"],), tallies.direct[node["id"]]) for node in entries if node["id"] in tallies.direct]
    yield _histogram("iop_direct_seconds", "How long direct runs took.", label, seconds)


def _http(tallies: Tallies) -> Iterator[Metric]:
    answers = [(labels, n) for labels, n in sorted(tallies.answers.items())]
    yield _counter(
        "iop_answers", "Requests that have ended, by the status their client got.", ("route", "class"), answers
    )
    errors = [((code,), n) for code, n in sorted(tallies.errors.items())]
    yield _counter("iop_errors", "Errors that iop itself told clients.", ("code",), errors)


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), rows)


def _counter(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), rows)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, rows: Iterable[Row]) -> Metric:
    for values, number in rows:
        family.add_metric(values, float(number))
    return family


def _histogram(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], Durations]]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    bounds = [str(bound) for bound in BOUNDS] + ["+Inf"]
    for values, durations in rows:
        family.add_metric(values, list(zip(bounds, accumulate(durations.counts), strict=True)), durations.total)
    return family
