"""Tokens of nodes: each is good for one node, and a new one costs no request."""

import asyncio
import hashlib
from pathlib import Path

import yaml

from iop.link.messages import Config, Ready, TurnedAway
from tests.fakes.edge_under_test import EdgeUnderTest, config, edge_under_test
from tests.fakes.link_peers import FakeNode, hello
from tests.fakes.refreshing import refresh

NODE = config()["nodes"][0]


def _guarded(**tokens: str) -> list[dict[str, object]]:
    """The declared node n1, and others that run nothing, each with its token's hash."""
    digests = {node_id: hashlib.sha256(token.encode()).hexdigest() for node_id, token in tokens.items()}
    return [{**(NODE if one == "n1" else {"id": one}), "token_sha256": digest} for one, digest in digests.items()]


async def _turned_away(edge: EdgeUnderTest, node_id: str, token: str | None) -> str:
    """Say hello with that token; returns the code of the refusal."""
    node = await FakeNode.connect(edge.address("nodes"))
    node.send(hello(node_id, "another instance", token=token))
    code: str = (await node.expect(TurnedAway)).code
    await node.close()
    return code


async def test_a_stolen_token_is_of_no_use_for_another_node(tmp_path: Path) -> None:
    """The token of n2 opens n2 only: not n1, not an id that is not declared; status names who was refused."""
    async with edge_under_test(tmp_path, nodes=_guarded(n1="one", n2="two")) as edge:
        assert await _turned_away(edge, "n1", "two") == "bad_token"
        assert await _turned_away(edge, "n3", "two") == "unknown_node"
        assert await _turned_away(edge, "n1", None) == "bad_token"

        refused = {(entry["node_id"], entry["code"]) for entry in edge.status()["turned_away"]}
        assert refused == {("n1", "bad_token"), ("n3", "unknown_node")}
        node = await edge.node("n2", up=(), token="two")
        await node.close()


async def test_a_new_token_cuts_no_link_and_no_request(tmp_path: Path) -> None:
    """After the refresh the connected node goes on; who dials anew, itself included, needs the new token."""
    async with edge_under_test(tmp_path, nodes=_guarded(n1="old")) as edge:
        node = await edge.node(token="old")
        asking = asyncio.ensure_future(edge.post())
        run = await edge.run(node)
        path = tmp_path / "next.yaml"
        path.write_text(yaml.safe_dump(config(nodes=_guarded(n1="new"))), encoding="utf-8")

        refreshing = asyncio.ensure_future(refresh(edge.ready["admin"], path))
        node.send(Ready(generation=(await node.expect(Config, 2)).generation))
        code, told = await refreshing

        assert (code, told["new_generation"]) == (0, 2), told
        assert [(change["path"], change["to"]) for change in told["changes"]] == [
            ("nodes[n1].token_sha256", "(hidden)")
        ]
        node.answer(run.run)
        assert (await asking).status == 200
        asking = asyncio.ensure_future(edge.post())
        node.answer((await edge.run(node, 2)).run)
        assert (await asking).status == 200
        assert await _turned_away(edge, "n1", "old") == "bad_token"
        await node.close()
        again = await edge.node(token="new", instance_id="i2")
        await again.close()
