"""The cases that take something away, as a person starts them: proved, put right again, and never run by accident."""

import subprocess
import sys
from pathlib import Path

from smoke.history import MERGED, Reported, Round, read
from smoke.judgement import judge
from tests.cluster.harness import ROOT
from tests.cluster.smoke_target import deployed, kept, smoke

LINE = "disrupted drained, killed, cut, line-full · final 0/0 · 4 passed"


async def test_drain_kill_cut_and_a_full_line_under_load(tmp_path: Path) -> None:
    """Nothing is lost, nothing runs twice, everybody has an answer or a clear error, and all is as it was."""
    async with deployed(tmp_path, rate=100.0, options={"link": {"dead_after": "2s"}}) as made:
        async with kept(tmp_path, made):
            done = await smoke(tmp_path, "-m", "disruptive")
        assert (done.code, done.last_line) == (0, LINE), done.stdout
        status = await made.calm()

    assert all(node["state"] == "connected" and node["drain"] is None for node in status["nodes"])
    assert all(entry["state"] == "ready" for entry in status["provider_snapshots"])
    assert done.folder is not None
    records = read(done.folder / MERGED)
    assert [record.outcome for record in records if isinstance(record, Reported)] == ["passed"] * 4
    views = {view.round.kind: view for view in judge(records).rounds}
    codes = {kind: {one.code for one in view.pool_requests if one.outcome == "failed"} for kind, view in views.items()}
    assert codes["drained"] == set()
    assert codes["killed"] <= {"upstream_unreachable", "upstream_broken"}
    assert codes["line_full"] == {"queue_full"}
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert "gx10-vllm-node went at " in page


async def test_without_asking_for_them_none_of_them_runs(tmp_path: Path) -> None:
    """Neither by their file, nor by their name, nor by another mark."""
    async with deployed(tmp_path, capacities={"mac-mlx-vllm": 1, "gx10-vllm": 1, "onexplayer-lemonade": 1}) as made:
        for options in (["-k", "killed"], ["-m", "not drill", "-k", "drain"], ["-m", "not disruptive", "-k", "cut"]):
            done = await smoke(tmp_path, "-n", "0", *options)
            assert done.code == 5, done.stdout
            assert done.folder is not None
            assert not [record for record in read(done.folder / MERGED) if isinstance(record, Round | Reported)]
        await made.calm()


def test_where_the_inventory_does_not_allow_them_they_are_a_usage_error() -> None:
    """The dev environment's nodes are not taken away; the line names the key that would allow it."""
    command = [sys.executable, "-m", "pytest", "smoke/", "--target", "dev", "-m", "disruptive"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 4, done
    assert "-m disruptive: dev does not allow to take its nodes away" in done.stderr
    assert "smoke_disruptive: true in inventory/dev/group_vars/all.yml" in done.stderr
