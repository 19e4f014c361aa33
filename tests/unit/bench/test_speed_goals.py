"""The judge of the benchmark, on made-up rows: a broken system must not get by."""

from collections.abc import Callable

import pytest

from tests.bench.speed.goals import GOALS
from tests.bench.speed.judging import Verdict, judge
from tests.bench.speed.plans import FULL, QUICK
from tests.bench.speed.summing import as_data, exit_code, one_line
from tests.bench.speed.tables import mark
from tests.bench.speed.tools import ROOT
from tests.bench.speed.values import Rows
from tests.unit.bench.speed_rows import Row, healthy, spoiled


def verdicts(rows: list[Row]) -> dict[str, Verdict]:
    """By the goal's word in the line."""
    return {one.goal.name: one for one in judge(Rows(rows), GOALS)}


def words(rows: list[Row]) -> dict[str, str]:
    """pass, miss or not measured, by goal."""
    return {name: one.word for name, one in verdicts(rows).items()}


def test_a_run_that_reaches_everything_passes() -> None:
    """Every goal has a value and holds; the line says so in one line, and the exit code is 0."""
    found = judge(Rows(healthy()), GOALS)
    assert {one.word for one in found} == {"pass"}
    assert exit_code(found) == 0
    line = one_line(found)
    assert "\n" not in line
    assert line.startswith("never-over 4/3/3 pass · answered ")
    assert "hand-over 1.003 pass" in line
    assert "cancel 1.90/2.30 ms pass" in line
    assert "quiet" not in line


BROKEN: dict[str, tuple[str, list[Row]]] = {
    "an engine gets more than its slots, once": (
        "never-over", spoiled("bursts", lambda row: row.update(peaks=[4, 4, 3]), rounds=1)),
    "more than its slots while clients leave the line": (
        "never-over", spoiled("left", lambda row: row.update(peaks=[5, 3, 3]), rounds=1)),
    "a burst that was refused in part": (
        "answered", spoiled("bursts", lambda row: row["load"].update(ok=10), rounds=1)),
    "one request of a speed measure fails": (
        "answered", spoiled("rps", lambda row: row["load"].update(ok=row["load"]["n"] - 1), rounds=1)),
    "one who holds a slot while others leave the line gets no answer": (
        "answered", spoiled("left", lambda row: row.update(blockers_ok=9), rounds=1)),
    "one beside a stalled reader gets no answer": (
        "answered", spoiled("slow", lambda row: row.update(bad=1), rounds=1)),
    "one way to ask is not answered at all": (
        "answered", spoiled("features", lambda row: row["answers"].update(responses=False))),
    "most of those who were to leave had another end": (
        "left-behind", spoiled("cancel", lambda row: row.update(seen=1), rounds=1)),
    "an engine runs on for a client who left": (
        "left-behind", spoiled("cancel", lambda row: row.update(never=1), rounds=1)),
    "a request whose client left never came": (
        "left-behind", spoiled("cancel", lambda row: row.update(absent=1), rounds=1)),
    "one who left the line is dispatched": (
        "left-behind", spoiled("left", lambda row: row.update(dispatched=1), rounds=1)),
    "the line refuses those who would wait": ("left-behind", spoiled("left", lambda row: row.update(left=3), rounds=1)),
    "the engine learns late": ("cancel", spoiled("cancel", lambda row: row.update(p50_ms=2.6))),
    "the engine learns of the slowest late": ("cancel", spoiled("cancel", lambda row: row.update(max_ms=5.1))),
}  # fmt: skip


@pytest.mark.parametrize(("goal", "rows"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_correct_fails_the_run(goal: str, rows: list[Row]) -> None:
    """That goal is missed, the line says so, and the exit code is 1."""
    assert words(rows)[goal] == "miss"
    found = judge(Rows(rows), GOALS)
    assert [one.goal.name for one in found if one.fatal] == [goal]
    assert exit_code(found) == 1
    assert f"{goal} " in one_line(found)
    assert as_data(found)["ok"] is False


@pytest.mark.parametrize("test", ["bursts", "turns", "left", "cancel"])
def test_correctness_that_was_not_measured_fails_the_run(test: str) -> None:
    """Without the rows that would prove it, a run is no proof; hand-over alone is a matter of speed."""
    rows = [row for row in healthy() if row["test"] != test]
    found = judge(Rows(rows), GOALS)
    assert exit_code(found) == (0 if test == "turns" else 1)
    assert "not measured" in {one.word for one in found}


def test_a_peer_that_never_came_up_fails_the_run() -> None:
    """No row of ours at all: all of correctness is told as not measured, and no speed is claimed."""
    found = judge(Rows([row for row in healthy() if row["peer"] != "iop"]), GOALS)
    assert exit_code(found) == 1
    assert one_line(found).count("not measured") == len(GOALS)


SLOWER: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "fewer requests": ("json", lambda: spoiled("rps", lambda row: row["load"].update(rps=9000))),
    "one Rust router is faster": (
        "json/rust", lambda: spoiled("rps", lambda row: row["load"].update(rps=90_000), peer="vllm-router")),
    "more CPU": ("cpu", lambda: spoiled("rps", lambda row: row.update(cpu_us_request=200))),
    "a late first word": ("first-token", lambda: spoiled("stream20", lambda row: row["load"].update(
        ttft_ms={"p50": 0.46, "p99": 0.6}))),
    "memory": ("memory", lambda: spoiled("mem", lambda row: row.update(idle_mb=61))),
    "a stalled reader that slows the others": (
        "beside-it", lambda: spoiled("slow", lambda row: row.update(rps_beside=940))),
    "a late hand-over": ("hand-over", lambda: spoiled("turns", lambda row: row.update(times_ideal=1.041))),
    "overtaken by as many as there are slots": (
        "order", lambda: spoiled("bursts", lambda row: row.update(places_late=10))),
}  # fmt: skip


@pytest.mark.parametrize(("goal", "made"), SLOWER.values(), ids=SLOWER)
def test_what_is_slow_is_told_and_fails_nothing(goal: str, made: Callable[[], list[Row]]) -> None:
    """That goal is missed; the exit code stays 0."""
    rows = made()
    assert words(rows)[goal] == "miss"
    assert exit_code(judge(Rows(rows), GOALS)) == 0


def test_a_ratio_is_taken_round_by_round() -> None:
    """What drifts on the machine hits both, so it leaves the ratio alone; its ends are told."""
    value = verdicts(healthy())["json"].values[0]
    assert value is not None
    assert value.rounds == 5
    assert [value.low, value.high] == pytest.approx([0.6, 0.6])
    value = verdicts(spoiled("rps", lambda row: row["load"].update(rps=6000), rounds=1))["json"].values[0]
    assert value is not None
    assert [value.low, value.value] == pytest.approx([0.2, 0.6])


def test_a_peer_that_is_missing_leaves_its_goal_unmeasured() -> None:
    """Without LiteLLM there is no ratio to it: told as not measured, in the line, too, and no failure."""
    rows = [row for row in healthy() if row["peer"] not in {"litellm", "vllm-router"}]
    found = verdicts(rows)
    assert {name for name, one in found.items() if one.word == "not measured"} == {
        "json/litellm", "json/rust", "first-token/rust",
    }  # fmt: skip
    assert "json/litellm not measured" in one_line(list(found.values()))
    assert exit_code(list(found.values())) == 0


def test_disturbed_rounds_do_not_count_while_there_are_quiet_ones() -> None:
    """Two disturbed rounds of five, however bad, change nothing but the number of rounds."""
    rows = spoiled("turns", lambda row: row.update(times_ideal=9.0, others_cores=1.5), rounds=2)
    one = verdicts(rows)["hand-over"]
    assert one.word == "pass"
    assert one.quiet
    assert [value.rounds for value in one.values if value] == [3]


def test_a_machine_without_quiet_is_told_and_excuses_times_only() -> None:
    """No quiet round: a late cancel does not fail the run, a count does, and the line names what is not sure."""
    late = judge(Rows(spoiled("cancel", lambda row: row.update(p50_ms=9.0, others_cores=1.5))), GOALS)
    assert exit_code(late) == 0
    assert one_line(late).endswith("the machine was not quiet: cancel had no undisturbed round")
    assert "cancel 9.00/2.30 ms miss" in one_line(late)
    lost = spoiled("cancel", lambda row: row.update(never=2, others_cores=1.5), rounds=1)
    assert exit_code(judge(Rows(lost), GOALS)) == 1


def _late_in(phase: str, *, quiet_ms: float) -> list[Row]:
    """One phase is noisy and very late; the others are quiet."""

    def spoil(row: Row) -> None:
        row.update({"p50_ms": 9.0, "others_cores": 1.5} if row["phase"] == phase else {"p50_ms": quiet_ms})

    return spoiled("cancel", spoil)


def test_a_noisy_phase_excuses_no_quiet_one() -> None:
    """Late in a quiet phase fails the run though a noisy one is later; late in the noisy one alone does not."""
    late = judge(Rows(_late_in("waiting", quiet_ms=2.6)), GOALS)
    assert exit_code(late) == 1
    assert "cancel 9.00/2.30 ms miss" in one_line(late)
    noisy = judge(Rows(_late_in("waiting", quiet_ms=1.9)), GOALS)
    assert exit_code(noisy) == 0
    assert "cancel 9.00/2.30 ms miss" in one_line(noisy)
    assert one_line(noisy).endswith("the machine was not quiet: cancel had no undisturbed round")


def test_the_line_names_every_goal_of_the_plan() -> None:
    """A planned goal without rows is told as not measured; the quick run leaves out those of peers that it has not."""
    quick = {goal.name for goal in GOALS if QUICK.measures(goal)}
    assert {goal.name for goal in GOALS} - quick == {"json/rust", "json/litellm", "first-token/rust"}
    assert all(FULL.measures(goal) for goal in GOALS)
    found = judge(Rows([]), GOALS, QUICK.measures)
    assert {part.removesuffix(" not measured") for part in one_line(found).split(" · ")} == quick
    alone = QUICK.narrowed(["iop"], ["bursts", "rps"], None)
    assert {goal.name for goal in GOALS if alone.measures(goal)} == {
        "never-over", "answered", "left-behind", "cancel", "burst", "order",
    }  # fmt: skip


def test_a_measure_that_failed_has_no_value() -> None:
    """Rows with an error are no numbers; of correctness they are no proof either."""
    rows = [{**row, "error": "x"} if row["test"] == "left" else row for row in healthy()]
    assert words(rows)["left-behind"] == "not measured"
    assert exit_code(judge(Rows(rows), GOALS)) == 1


def test_a_peer_that_dies_in_the_middle_fails_the_run() -> None:
    """A round of ours that could not be measured counts as a request without an answer."""
    rows = healthy()
    rows[-1] = {"test": rows[-1]["test"], "peer": "iop", "round": rows[-1]["round"], "error": "ConnectionRefusedError"}
    assert words(rows)["answered"] == "miss"
    assert exit_code(judge(Rows(rows), GOALS)) == 1


def test_the_page_names_every_goal_with_its_marks() -> None:
    """docs/explanation/performance.md says each goal by its word in the line, what it is, and each mark as judged."""
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text(encoding="utf-8")
    table = page.partition("\n## Goals\n")[2].partition("\n## ")[0]
    rows = {cells[1].strip(): line for line in table.splitlines() if len(cells := line.split("|")) > 3}
    for goal in GOALS:
        assert " / ".join(mark(part) for part in goal.parts) in rows[goal.name]
        assert f"| {goal.measure}{f' ({goal.unit})' if goal.unit else ''} |" in rows[goal.name]
