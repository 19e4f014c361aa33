"""The metric families: what the status says and what was counted, as samples."""

import asyncio
from pathlib import Path

import yaml

from iop.domain.specs import Ask
from iop.edge.families import families
from iop.edge.refresh import RefreshAsk
from iop.link.messages import Run, TurnedAway
from tests.fakes.cost import lines_run
from tests.fakes.edge_under_test import ADAPTERS, PROVIDER, EdgeUnderTest, config, edge_under_test
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.until import until

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(edge: EdgeUnderTest) -> Samples:
    """Everything a scrape would tell now."""
    core = edge.core
    made = families(core.status(), core.links.turned_away_by_code(), core.tallies)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in made for one in family.samples}


def value(found: Samples, name: str, **labels: str) -> float:
    """One sample."""
    return found[name, tuple(sorted(labels.items()))]


async def test_gauges_are_those_of_the_status(edge: EdgeUnderTest) -> None:
    """With two slots held and one waiter, each number is the one that the status shows at that moment."""
    node = await edge.node()
    asked = [asyncio.ensure_future(edge.post()) for _ in range(3)]
    await edge.run(node, 2)
    await until(lambda: edge.load() == (2, 1))
    await until(lambda: value(samples(edge), "iop_model_oldest_wait_seconds", model="m") > 0)
    found, status = samples(edge), edge.status()
    provider = status["provider_snapshots"][0]
    for key in ("capacity", "in_flight", "queued", "over_by"):
        assert value(found, f"iop_provider_{key}", provider="p1", node="n1") == provider[key]
    for key in ("capacity", "in_flight", "queued"):
        assert value(found, f"iop_{key}") == status["totals"][key]
    assert (provider["in_flight"], status["totals"]["queued"]) == (2, 1)
    assert value(found, "iop_model_queued", model="m") == 1
    assert value(found, "iop_model_oldest_wait_seconds", model="m") > 0
    assert value(found, "iop_provider_oldest_in_flight_seconds", provider="p1", node="n1") > 0
    assert value(found, "iop_provider_state", provider="p1", node="n1", state="ready") == 1
    assert value(found, "iop_provider_state", provider="p1", node="n1", state="offline") == 0
    assert value(found, "iop_node_connected", node="n1") == 1
    assert value(found, "iop_node_state", node="n1", state="connected") == 1
    await _answer_all(edge, node, 3)
    await asyncio.gather(*asked)
    await node.close()


async def test_counters_and_histograms_obey_the_law(edge: EdgeUnderTest) -> None:
    """Three answers and one unknown model: outcomes, waits, holds, first bytes, answers and errors agree with the
    status.
    """
    node = await edge.node()
    asked = [asyncio.ensure_future(edge.post()) for _ in range(3)]
    await _answer_all(edge, node, 3)
    await asyncio.gather(*asked)
    await edge.post(body={"model": "made-up", "messages": []})
    found, totals = samples(edge), edge.status()["totals"]
    for event in ("received", "refused", "expired", "abandoned", "admitted", "adopted", "returned", "completed"):
        assert value(found, "iop_pool_requests_total", event=event) == totals[event]
    assert value(found, "iop_provider_runs_total", provider="p1", node="n1", event="completed") == 3
    assert value(found, "iop_model_requests_total", model="m", outcome="completed") == 3
    assert value(found, "iop_wait_seconds_count", model="m") == totals["admitted"] == 3
    assert value(found, "iop_hold_seconds_bucket", provider="p1", node="n1", le="+Inf") == 3
    assert value(found, "iop_first_byte_seconds_count", model="m") == 3
    assert value(found, "iop_answers_total", route="pool", **{"class": "2xx"}) == 3
    assert value(found, "iop_answers_total", route="none", **{"class": "4xx"}) == 1
    assert value(found, "iop_errors_total", code="model_not_found") == 1
    assert not [labels for _, labels in found if "made-up" in dict(labels).values()]
    await node.close()


async def test_a_direct_run_is_counted_at_its_node(edge: EdgeUnderTest) -> None:
    """By outcome, and how long it took."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post(body={"model": "agent", "messages": []}))
    await edge.run(node)
    assert value(samples(edge), "iop_direct_in_flight", node="n1") == 1
    await _answer_all(edge, node, 1)
    await asked
    found = samples(edge)
    assert value(found, "iop_direct_in_flight", node="n1") == 0
    assert value(found, "iop_direct_runs_total", node="n1", outcome="completed") == 1
    assert value(found, "iop_direct_seconds_count", node="n1") == 1
    await node.close()


async def test_a_stranger_makes_a_number_and_no_series(edge: EdgeUnderTest) -> None:
    """Whatever ids are claimed at the node port, the code alone is a label."""
    for claimed in ("evil-1", "evil-2"):
        node = await FakeNode.connect(edge.address("nodes"))
        node.send(hello(claimed))
        await node.expect(TurnedAway)
        await node.close()
    found = samples(edge)
    assert value(found, "iop_nodes_turned_away_total", code="unknown_node") == 2
    assert value(found, "iop_nodes_turned_away_total", code="bad_token") == 0
    assert not [labels for _, labels in found if any("evil" in text for text in dict(labels).values())]


async def test_series_of_what_was_removed_go_away(edge: EdgeUnderTest) -> None:
    """After a refresh that replaces the provider and the model, only the new names are there."""
    node = {"id": "n1", "adapters": ADAPTERS, "providers": [{**PROVIDER, "id": "p2"}]}
    changed = yaml.safe_dump(config(nodes=[node], models=[{"id": "m2", "providers": {"p2": "x"}}]))
    reply = await edge.core.refresh(RefreshAsk("apply", changed, str(edge.folder / "edge.yaml"), None, 0.0))
    assert reply.body["new_generation"] == 2
    names = {text for _, labels in samples(edge) for text in dict(labels).values()}
    assert {"p2", "m2"} <= names
    assert not {"p1", "m", "agent"} & names
    assert value(samples(edge), "iop_config_generation") == 2


async def test_a_long_line_costs_a_scrape_nothing(tmp_path: Path) -> None:
    """With 10,000 waiting the same steps are made as with ten."""
    async with edge_under_test(tmp_path, queue={"max_waiting": 20_000}) as edge:
        door = edge.core.door
        tickets = [door.ask(Ask(f"r{n}", "m")) for n in range(10)]
        samples(edge)
        few = lines_run(lambda: samples(edge))
        tickets += [door.ask(Ask(f"r{n}", "m")) for n in range(10, 10_000)]
        many = lines_run(lambda: samples(edge))
        assert value(samples(edge), "iop_queued") == 10_000
        for ticket in tickets:
            ticket.leave()
        assert value(samples(edge), "iop_model_requests_total", model="m", outcome="abandoned") == 10_000
    assert few == many > 100


async def _answer_all(edge: EdgeUnderTest, node: FakeNode, count: int) -> None:
    """Answer each run as it comes."""
    for number in range(1, count + 1):
        await edge.run(node, number)
        node.answer(node.all(Run)[number - 1].run)
