"""What a benchmark run leaves behind: tables, a picture, one line; and the order in which peers take their turns."""

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bench.speed import line, plans, scale
from tests.bench.speed.compare import begun
from tests.bench.speed.goals import GOALS
from tests.bench.speed.judging import Part, Verdict, judge
from tests.bench.speed.measures import Measure
from tests.bench.speed.plans import FULL, QUICK, Plan
from tests.bench.speed.plot import needed, picture
from tests.bench.speed.rig import NotUp, Running
from tests.bench.speed.session import Session
from tests.bench.speed.summing import exit_code, one_line
from tests.bench.speed.tables import page
from tests.bench.speed.values import Rows
from tests.unit.bench.speed_rows import Row, healthy


def _judged(rows: list[Row]) -> tuple[Rows, list[Verdict]]:
    return Rows(rows), judge(Rows(rows), GOALS)


def test_the_page_tells_facts_goals_versions_and_what_is_left_out() -> None:
    """Medians with their ends, ratios by name, quiet rounds, and who could not be measured and why."""
    rows = [row for row in healthy() if row["peer"] != "litellm"]
    rows += [
        {"test": "left out", "peer": "litellm", "reason": "no way to a registry"},
        {"test": "slow", "peer": "haproxy", "round": 0, "error": "TimeoutExpired"},
    ]
    known, verdicts = _judged(rows)
    text = page(known, verdicts, {"processor": "two of them"}, {"haproxy": "2.6.12"})
    assert "- processor: two of them" in text
    assert "| haproxy | 2.6.12 |" in text
    assert "- litellm is left out: no way to a registry" in text
    assert "- haproxy is left out of slow: TimeoutExpired" in text
    assert one_line(verdicts) in text
    assert (
        "| json | JSON requests/s, 64 connections, over nginx two-hop (x) | 0.60 (0.60 to 0.60) | ≥ 0.5 | 5 | pass |"
        in text
    )
    assert "| iop | 1.0 (1.0 to 1.0) | 1,000 (1,000 to 1,000) | 990 (990 to 990) | 5 of 5 |" in text


def test_the_picture_is_svg_with_a_line_per_goal() -> None:
    """Well-formed, no number outside of it, each goal and each peer named."""
    known, verdicts = _judged(healthy())
    root = ET.fromstring(picture(known, verdicts))
    words = {one.text for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {one.goal.name for one in verdicts} | {"iop", "nginx-2hop", "litellm"} <= words
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        if bar.get("width") != "100%":
            assert 0 <= float(bar.get("x", "-1")) <= float(bar.get("x", "-1")) + float(bar.get("width", "-1")) <= 900


@pytest.mark.parametrize(
    ("part", "value", "share"),
    [
        (Part(lambda _: None, 2.0), 1.0, 0.5), (Part(lambda _: None, 2.0, at_least=True), 1.0, 2.0),
        (Part(lambda _: None, 2.0, at_least=True), 0.0, float("inf")), (Part(lambda _: None, 0), 0, 0.0),
        (Part(lambda _: None, 0), 3, float("inf")),
    ],
)  # fmt: skip
def test_less_than_the_mark_is_always_good(part: Part, value: float, share: float) -> None:
    """Whichever way a mark is meant, 1 is the mark and less is reached; marks of 0 divide nothing."""
    assert needed(part, value) == share


class Calls:
    """Stands for the rig and the measures: remembers who was asked for what."""

    def __init__(self, broken: str = "") -> None:
        self.broken, self.asked, self.stopped = broken, [], []  # type: tuple[str, list[tuple[str, str, int]], list[str]]

    def start(self, name: str, _peer: object, *, limited: bool) -> Running:
        if name == self.broken:
            raise NotUp(f"{name} did not come up: no such option")
        return Running(name, 1, [])

    def stop(self, running: Running) -> None:
        self.stopped.append(running.name)


def _turns(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: str = "", fails: str = ""
) -> tuple[Calls, list[Row]]:
    calls = Calls(broken)

    def measure(test: str) -> Measure:
        def act(_session: Session, peer: Running, round_: int) -> None:
            calls.asked.append((test, peer.name, round_))
            if peer.name == fails:
                raise subprocess.TimeoutExpired("load", 1)

        return act

    monkeypatch.setattr(plans, "OPEN", {test: measure(test) for test in plans.OPEN})
    monkeypatch.setattr(plans, "LIMITED", {test: measure(test) for test in plans.LIMITED})
    session = Session(calls, tmp_path / "rows.jsonl", lambda _text: None)  # type: ignore[arg-type]
    plans.take_turns(session, plan)
    return calls, session.rows


def test_turns_go_there_and_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A B C, then C B A, then A B C; everything that was started is stopped."""
    plan = Plan(["nginx-2hop", "haproxy", "iop"], ["rps"], 3, 1.0, (1,))
    calls, rows = _turns(plan, monkeypatch, tmp_path)
    there = ["nginx-2hop", "haproxy", "iop"]
    assert [peer for _, peer, _ in calls.asked] == [*there, *there[::-1], *there]
    assert calls.stopped == there
    assert rows == []


def test_a_peer_that_fails_is_told_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that does not start is left out with its reason; one that fails in a measure has a row that says so."""
    plan = Plan(["nginx-2hop", "haproxy", "iop"], ["rps"], 1, 1.0, (1,))
    calls, rows = _turns(plan, monkeypatch, tmp_path, broken="nginx-2hop", fails="haproxy")
    assert [peer for _, peer, _ in calls.asked] == ["haproxy", "iop"]
    assert rows[0] == {"test": "left out", "peer": "nginx-2hop", "reason": "nginx-2hop did not come up: no such option"}
    assert rows[1]["peer"] == "haproxy"
    assert "TimeoutExpired" in rows[1]["error"]
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()] == rows


def test_both_runs_measure_every_goal_of_correctness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ours takes part in each measure that a goal of correctness needs, quick or not; five rounds where not quick."""
    for plan in (QUICK, FULL):
        calls, _ = _turns(plan, monkeypatch, tmp_path)
        assert {"bursts", "turns", "left", "cancel", "rps", "mem"} <= {
            test for test, peer, _ in calls.asked if peer == "iop"
        }
    assert {test for test, peer, round_ in calls.asked if peer == "iop" and round_ == 4} >= {
        "rps",
        "bursts",
        "cancel",
        "slow",
    }
    assert ("turns", "nginx", 1) not in calls.asked
    assert ("slow", "litellm", 0) not in calls.asked


def test_goals_of_the_line_stand_beside_the_others() -> None:
    """What the line's own benchmark says is told like the rest; it is speed, and fails no run."""
    row = {"test": "status", "what": "/status, 10000 waiting, worst", "value": 42.0, "unit": "ms", "goal": 50.0}
    passed, missed = scale.verdict_of(row), scale.verdict_of({**row, "value": 51.0})
    name = "line: status /status 10000 waiting worst"
    assert one_line([passed, missed]) == f"{name} 42.00 ms pass · {name} 51.00 ms miss"
    assert exit_code([missed]) == 0


COST = {"test": "cost", "what": "10000 : 10", "value": 1.2, "unit": "times"}
#: what the line's own program prints when all is well
WHOLE = [COST, *({**COST, "test": test, "what": what, "goal": goal} for (test, what), goal in line.GOALS.items())]


def _line_says(
    monkeypatch: pytest.MonkeyPatch, rows: list[Row], code: int, more: str = ""
) -> tuple[list[Row], list[Verdict]]:
    output = "".join(f"{json.dumps(row)}\n" for row in rows) + more
    done = subprocess.CompletedProcess([], code, output, "it\nbroke")
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: done)
    return scale.measure_line(lambda _text: None)


def test_the_line_is_measured_by_its_own_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line that it prints is a row of ours; those with a goal are judged."""
    rows, verdicts = _line_says(monkeypatch, WHOLE, 0)
    assert rows == [{**row, "peer": "line"} for row in WHOLE]
    assert [one.word for one in verdicts] == ["pass"] * len(line.GOALS)


def test_a_missed_goal_of_the_line_is_not_taken_for_its_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1 with a row over its goal is a measurement: that goal is missed, the others pass."""
    rows, verdicts = _line_says(monkeypatch, [*WHOLE[:-1], {**WHOLE[-1], "value": 99.0}], 1)
    assert len(rows) == len(WHOLE)
    assert [one.word for one in verdicts] == ["pass", "pass", "pass", "miss"]


DEAD: dict[str, tuple[list[Row], int, str, str]] = {
    "it cannot be carried": ([], 3, "", "exit code 3"),
    "killed half-way": (WHOLE[:2], -9, "", "exit code -9"),
    "killed at its end": (WHOLE, -9, "", "exit code -9"),
    "a traceback half-way": (WHOLE[:2], 1, "", "exit code 1 and nothing of 3 of 4 goals"),
    "a traceback at its end": (WHOLE, 1, "", "exit code 1 is not what its rows say"),
    "half a line": (WHOLE, 0, '{"test": "co', "what it printed is not JSON"),
    "a row that is none": (WHOLE, 0, '{"test": "cost"}', "what it printed is not JSON"),
    "nothing": ([], 0, "", "exit code 0 and nothing of 4 of 4 goals"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "code", "more", "reason"), DEAD.values(), ids=DEAD)
def test_a_line_that_did_not_come_to_its_end_measured_no_goal(
    monkeypatch: pytest.MonkeyPatch, rows: list[Row], code: int, more: str, reason: str
) -> None:
    """Each of its goals is told as not measured, with the reason; the run goes on, and the page says more."""
    found, verdicts = _line_says(monkeypatch, rows, code, more)
    assert found[-1] == {"test": "left out", "peer": "line", "reason": f"{scale.MODULE}: {reason}: it | broke"}
    assert len(verdicts) == len(line.GOALS)
    assert one_line(verdicts).count(f" not measured ({reason})") == len(line.GOALS)
    assert exit_code(verdicts) == 0


def test_a_line_without_an_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that hangs is given up, and its goals are told as not measured."""

    def hang(*_args: object, **_options: object) -> None:
        raise subprocess.TimeoutExpired("line", scale.PATIENCE)

    monkeypatch.setattr(subprocess, "run", hang)
    rows, verdicts = scale.measure_line(lambda _text: None)
    assert [row["test"] for row in rows] == ["left out"]
    assert {one.reason for one in verdicts} == {"no end within 900 s"}


def test_runs_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    """The second to begin in a second gets a number after the name; nobody writes into a file of another."""
    folder = tmp_path / "bench"
    names = [begun(folder, "20260101-000000").name for _ in range(3)]
    assert names == ["20260101-000000.jsonl", "20260101-000000-2.jsonl", "20260101-000000-3.jsonl"]
    assert sorted(one.name for one in folder.iterdir()) == sorted(names)
