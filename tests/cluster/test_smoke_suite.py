"""The smoke suite itself, as a person starts it, against clusters that are well and clusters that are not."""

import asyncio
import subprocess
import sys
from pathlib import Path

from smoke.history import MERGED, Round, read
from tests.cluster.harness import ROOT
from tests.cluster.load import payload, send
from tests.cluster.smoke_target import deployed, smoke

CAPACITIES = {"mac-mlx-vllm": 1, "gx10-vllm": 2, "onexplayer-lemonade": 2}
LINE = "capacity 5/5 · queued max 1 · final 0/0 · 13 passed"


async def test_other_capacities_are_proved_on_workers_and_without(tmp_path: Path) -> None:
    """Over 1 + 2 + 2 slots every case passes, on workers and with -n 0, and the records say it again (B72)."""
    async with deployed(tmp_path, capacities=CAPACITIES, rate=100.0) as made:
        spread, alone = await smoke(tmp_path), await smoke(tmp_path, "-n", "0")
        await made.calm()

    assert (spread.code, spread.last_line) == (0, LINE), spread.stdout
    assert (alone.code, alone.last_line) == (0, LINE), alone.stdout
    assert "3 workers" in spread.stdout
    assert "workers" not in alone.stdout
    for done in (spread, alone):
        assert done.folder is not None
        rounds = [record for record in read(done.folder / MERGED) if isinstance(record, Round)]
        assert {one.case for one in rounds} == {
            "capacity-chat", "capacity-responses", "fifo", "cli-beside", "left-queued", "left-streaming"
        }  # fmt: skip
        report = done.report()
        assert report.startswith("LOOPBACK, SIMULATED ENGINES: proves the software, not your machines\n")
        assert "engine counters of gx10-vllm (peak offered 2 of 2" in report
        assert (done.folder / "junit.xml").is_file()
        again = _judged_again(done.folder)
        assert (again.returncode, again.stdout.splitlines()[-1]) == (0, LINE), again


async def test_other_traffic_and_a_host_that_is_down_are_blockers(tmp_path: Path) -> None:
    """A pool that is never idle and a killed node fail the run; the last line counts it, the report names it."""
    async with deployed(tmp_path, capacities=CAPACITIES) as made:
        async with asyncio.TaskGroup() as group:
            stranger = group.create_task(send(made, payload("chat", tokens=100_000, stream=True), "chat", "stranger"))
            await made.status_where(lambda s: s["totals"]["in_flight"] == 1, "the stranger's request runs")
            busy = await smoke(tmp_path, "--quiet-wait", "4", "-k", "test_capacity")
            stranger.cancel()
        await made.processes["gx10-vllm-node"].kill()
        await made.status_where(lambda s: s["nodes"][1]["state"] == "offline", "the node is offline")
        down = await smoke(tmp_path, "--quiet-wait", "4", "-k", "reachable or test_capacity or first_in or models")

    assert busy.code == 1, busy.stdout
    assert "other traffic: the pool was not 0/0 for 2 s within 4 s" in busy.report()
    assert busy.last_line.startswith("capacity ?/5 · queued max ? · final ?/? · 2 failed, 0 passed")
    assert down.code == 1, down.stdout
    assert "BLOCKER: node gx10-vllm-node is offline" in down.stdout
    assert "- **node gx10-vllm-node is offline**" in down.report()
    assert "failed" in down.last_line
    assert "blocked" in down.last_line


def test_a_missing_or_unknown_target_is_a_usage_error(tmp_path: Path) -> None:
    """Exit code 4 and one line that names the option; never an internal error, also with a folder named like it."""
    (tmp_path / "dev").mkdir()
    for options, words in (
        ([], "ERROR: --target is missing: one of dev, lab, local"),
        (["--target", "nope"], "ERROR: --target nope: no such environment (known: dev, lab, local)"),
        (["--inventory", str(tmp_path / "inventory" / "x")], "no such folder"),
    ):
        command = [sys.executable, "-m", "pytest", str(ROOT / "smoke"), *options]
        done = subprocess.run(command, cwd=tmp_path, env=_env(), capture_output=True, text=True, check=False)
        assert done.returncode == 4, done
        assert words in done.stderr
        assert "INTERNALERROR" not in done.stdout + done.stderr


def _judged_again(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "smoke.judge", str(folder)]
    return subprocess.run(command, cwd=ROOT, env=_env(), capture_output=True, text=True, check=False)


def _env() -> dict[str, str]:
    """A plain environment, as in a shell of a person."""
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT / 'runtime'}"}
