"""What a benchmark run leaves behind: tables, a picture, one line; and the order in which peers take their turns."""

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bench.speed import plans, scale
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


def _line_says(monkeypatch: pytest.MonkeyPatch, output: str) -> tuple[list[Row], list[Verdict]]:
    done = subprocess.CompletedProcess([], 0, output, "it broke")
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: done)
    return scale.measure_line(lambda _text: None, "tests.bench.speed.place")


def test_the_line_is_measured_by_its_own_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line that it prints is a row of ours; those with a goal are judged."""
    row = {"test": "cost", "what": "10000 : 10", "value": 1.2, "unit": "times"}
    output = f"{json.dumps(row)}\n{json.dumps({**row, 'goal': 1.5})}\n"
    rows, verdicts = _line_says(monkeypatch, output)
    assert rows == [{**row, "peer": "line"}, {**row, "goal": 1.5, "peer": "line"}]
    assert [one.passed for one in verdicts] == [True]


@pytest.mark.parametrize("output", ["", "Traceback"])
def test_a_line_that_says_nothing_is_told_as_left_out(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """No rows, or no JSON: the run goes on, and the report says what is missing and why."""
    rows, verdicts = _line_says(monkeypatch, output)
    assert [(row["test"], row["peer"]) for row in rows] == [("left out", "line")]
    assert verdicts == []


def test_a_line_that_is_not_there_adds_nothing() -> None:
    """A checkout without that module is measured without it."""
    assert scale.measure_line(lambda _text: None, "tests.bench.speed.no_such_module") == ([], [])
