"""`turned_away` in the status: each of the four codes, with peer, time and count, and never more than its bound."""

import hashlib
from pathlib import Path

import pytest

from iop.edge.registry import MAX_TURNED_AWAY
from iop.link.messages import TURNED_AWAY_CODES, TurnedAway
from tests.fakes.edge_under_test import EdgeUnderTest, config, edge_under_test
from tests.fakes.link_peers import FakeNode, hello

HELLOS = {
    "bad_token": {"node_id": "guarded", "token": "wrong"},
    "unknown_node": {"node_id": "nobody"},
    "protocol_mismatch": {"node_id": "n1", "protocol": 99},
    "duplicate_node": {"node_id": "n1", "instance_id": "a clone"},
}
GUARDED = {"id": "guarded", "token_sha256": hashlib.sha256(b"right").hexdigest()}
NODES = [*config()["nodes"], GUARDED]


async def _knock(edge: EdgeUnderTest, **fields: object) -> TurnedAway:
    """Say hello and be refused."""
    node = await FakeNode.connect(edge.address("nodes"))
    node.send(hello(**fields))  # type: ignore[arg-type]
    refusal: TurnedAway = await node.expect(TurnedAway)
    await node.gone()
    await node.close()
    return refusal


@pytest.mark.parametrize("code", TURNED_AWAY_CODES)
async def test_each_code_is_told_with_peer_time_and_count(tmp_path: Path, code: str) -> None:
    """Twice refused is one entry with count 2; the refused peer hears the same code, and the node that serves stays."""
    async with edge_under_test(tmp_path, nodes=NODES) as edge:
        node = await edge.node()
        before = edge.status()["observed_at"]
        for _ in range(2):
            assert (await _knock(edge, **HELLOS[code])).code == code
        async with edge.session.get(edge.url("/status", "admin")) as response:
            told = await response.json()
        (entry,) = told["turned_away"]
        assert {key: entry[key] for key in ("node_id", "code", "peer", "count")} == {
            "node_id": HELLOS[code]["node_id"],
            "code": code,
            "peer": "127.0.0.1",
            "count": 2,
        }
        assert before <= entry["last_at"] <= told["observed_at"]
        assert told["nodes"][0]["connected"] is True
        await node.close()


async def test_the_list_is_bounded_and_the_latest_stay(tmp_path: Path) -> None:
    """A scanner with ever new ids leaves 64 entries, the last ones, with ids cut to a length for people."""
    async with edge_under_test(tmp_path) as edge:
        for number in range(MAX_TURNED_AWAY + 6):
            await _knock(edge, node_id=f"scan-{number}-" + "x" * 1000)
        entries = edge.status()["turned_away"]
        assert len(entries) == MAX_TURNED_AWAY
        assert entries[-1]["node_id"].startswith(f"scan-{MAX_TURNED_AWAY + 5}-")
        assert {len(entry["node_id"]) for entry in entries} == {128}
