"""The smoke suite itself, as a person starts it, against clusters that are well and clusters that are not."""

from pathlib import Path

from tests.cluster.smoke_target import deployed, smoke


async def test_other_capacities_are_proved_and_summed_up_in_the_last_line(tmp_path: Path) -> None:
    """Over 1 + 2 + 2 slots every case passes, the last line tells the numbers, the report has the engines' counters."""
    capacities = {"mac-mlx-vllm": 1, "gx10-vllm": 2, "onexplayer-lemonade": 2}
    async with deployed(tmp_path, capacities=capacities) as made:
        done = await smoke(tmp_path)
        await made.calm()

    assert done.code == 0, done.stdout
    assert done.last_line == "capacity 5/5 · queued max 1 · final 0/0 · 13 passed"
    assert "created: 3/3 workers" in done.stdout or "3 workers" in done.stdout
    assert done.report().startswith("LOOPBACK, SIMULATED ENGINES: proves the software, not your machines\n")
