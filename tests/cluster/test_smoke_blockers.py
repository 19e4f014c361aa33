"""What is not there is a blocker with its reason, in both reports, and fails the run; never an internal error."""

import asyncio
from http.server import ThreadingHTTPServer
from pathlib import Path

from tests.cluster.harness import Cluster
from tests.cluster.smoke_target import Smoked, deployed, smoke
from tests.fakes.quiet_http import Quiet

CAPACITIES = {"mac-mlx-vllm": 1, "gx10-vllm": 2, "onexplayer-lemonade": 2}
QUICK = ("-n", "0", "--quiet-wait", "3")


class Stranger(Quiet):
    """Another program that has our port."""

    def answer(self) -> None:
        """Something, but not what an Edge says."""
        self.say(404)


def blocked(done: Smoked, reason: str) -> None:
    """The run failed, and the reason stands on the terminal, in both reports and in the count of the last line."""
    assert done.code == 1, done.stdout
    assert f"BLOCKER: {reason}" in done.stdout
    assert "blocked" in done.last_line
    assert "INTERNALERROR" not in done.stdout
    assert "Traceback" not in done.stdout
    assert done.folder is not None
    assert f"- **{reason}" in done.report()
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert f"<strong>{reason}" in page
    assert ">blocked<" in page


async def test_engine_token_and_port_that_are_not_there(tmp_path: Path) -> None:
    """An engine that is down, an admin token that is missing, an Edge that is away, a stranger on its port."""
    async with deployed(tmp_path, capacities=CAPACITIES, options={"probe": {"every": "500ms"}}) as made:
        await engine_is_down(tmp_path, made)
        await token_is_missing(tmp_path)
        await edge_is_away(tmp_path, made)


async def engine_is_down(checkout: Path, made: Cluster) -> None:
    """The provider says what its engine does not."""
    await made.processes["engine-gx10-vllm"].kill()
    await made.status_where(lambda s: s["provider_snapshots"][1]["state"] == "down", "the engine is missed")
    done = await smoke(checkout, *QUICK, "-k", "reachable or test_capacity")
    blocked(done, "provider gx10-vllm is down (")
    await made.start_engine("gx10-vllm")
    await made.all_ready()


async def token_is_missing(checkout: Path) -> None:
    """Drains and dry-runs need it; the reason names where it is looked for."""
    token = checkout / "build" / "test-runtime" / "admin.token"
    kept = token.read_bytes()
    token.unlink()
    done = await smoke(checkout, *QUICK, "-m", "disruptive", "-k", "drain")
    blocked(done, f"no admin token at {token} or ")
    assert "give --token-file" in done.stdout
    done = await smoke(checkout, *QUICK, "-k", "refresh")
    blocked(done, "")
    assert "nothing to do" not in done.stdout
    token.write_bytes(kept)


async def edge_is_away(checkout: Path, made: Cluster) -> None:
    """Every case has the one reason; whoever sits on the port is named."""
    port = int(made.processes["edge"].ready["openai"].rpartition(":")[2])
    assert await made.processes["edge"].stop() == 0
    done = await smoke(checkout, *QUICK)
    blocked(done, f"{made.openai} does not answer: ")
    assert done.last_line == "capacity ?/5 · queued max ? · final ?/? · 13 failed, 0 passed, 1 blocked"
    with ThreadingHTTPServer(("127.0.0.1", port), Stranger) as server:
        serving = asyncio.create_task(asyncio.to_thread(server.serve_forever, 0.05))
        done = await smoke(checkout, *QUICK)
        server.shutdown()
        await serving
    blocked(done, f"port {port} is taken: ")
