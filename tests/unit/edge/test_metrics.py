"""`GET /metrics`, as Prometheus asks for it."""

import asyncio
import subprocess

import pytest
from prometheus_client import parser

from iop.edge.journal import POLLED
from tests.fakes import promtool
from tests.fakes.edge_under_test import EdgeUnderTest

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


async def _scrape(edge: EdgeUnderTest, query: str = "", **headers: str) -> tuple[dict[str, str], str]:
    answer = await edge.session.get(edge.url(f"/metrics{query}", "admin"), headers=headers)
    assert answer.status == 200
    return dict(answer.headers), await answer.text()


async def test_the_text_is_what_prometheus_reads(edge: EdgeUnderTest) -> None:
    """The classic format by default: parsed again, it has the Edge's families and the process's."""
    headers, text = await _scrape(edge)
    found = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert found["iop_capacity"].samples[0].value == 2
    assert found["iop_build_info"].samples[0].labels == {
        "edge": "edge-test", "version": edge.core.identity.version, "release_id": "test",
    }  # fmt: skip
    assert found["iop_hold_seconds"].type == "histogram"
    assert found["process_open_fds"].samples[0].value > 3
    assert not [name for name in found if name.endswith("_created")]


async def test_open_metrics_is_given_to_who_asks_for_it(edge: EdgeUnderTest) -> None:
    """By `Accept`, with its closing mark."""
    headers, text = await _scrape(edge, Accept=OPEN_METRICS)
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


async def test_a_format_that_cannot_be_read_is_a_400(edge: EdgeUnderTest) -> None:
    """The library falls over a version that is no number; here it is the reader's fault, told as such."""
    odd = {"Accept": "application/openmetrics-text; version=abc"}
    answer = await edge.session.get(edge.url("/metrics", "admin"), headers=odd)
    assert (answer.status, (await answer.json())["error"]["code"]) == (400, "invalid_body")


async def test_some_families_can_be_asked_for_by_name(edge: EdgeUnderTest) -> None:
    """`?name[]=` gives those and no others."""
    _, text = await _scrape(edge, "?name[]=iop_queued")
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["iop_queued 0.0"]


async def test_it_is_compressed_for_who_can_read_that(edge: EdgeUnderTest) -> None:
    """Prometheus asks for gzip."""
    headers, text = await _scrape(edge, **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip"
    assert "iop_capacity 2.0" in text


async def test_two_edges_in_one_process_do_not_meet(edge: EdgeUnderTest) -> None:
    """Each has a registry of its own; the library's global one has nothing of ours."""
    import prometheus_client

    assert b"iop_" not in prometheus_client.generate_latest()
    assert "/metrics" in POLLED


@pytest.mark.skipif(promtool.find() is None, reason="promtool is not here: make promtool-here")
async def test_promtool_finds_nothing_to_mend(edge: EdgeUnderTest) -> None:
    """Prometheus' own checker reads it and has no advice about names, types or units."""
    node = await edge.node()
    asked = asyncio.ensure_future(edge.post())
    run = await edge.run(node)
    node.answer(run.run)
    await asked
    _, text = await _scrape(edge)
    checker = promtool.find()
    assert checker is not None
    done = await asyncio.to_thread(
        subprocess.run, [checker, "check", "metrics"], input=text.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    await node.close()
