"""A saved history is judged again, and says the same."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from smoke.history import MERGED, Blocker, Finished, Record, Reported, Seen, write
from smoke.judge import in_words, main
from smoke.judgement import NoEnvironment, closing_line, judge
from tests.fakes.smoke_story import burst, environment, full, records, renamed, request, snapshot, status


def test_a_proved_round_is_summed_up_in_one_line() -> None:
    """Capacity, queue, final and count are told, whatever the capacities are."""
    judgement = judge(records(burst().view()))

    assert judgement.ok
    assert closing_line(judgement, ["passed"] * 13) == "capacity 3/3 · queued max 1 · final 0/0 · 13 passed"


def test_the_order_of_the_records_of_other_rounds_does_not_matter() -> None:
    """Records of several workers interleave; each round gets its own."""
    view = burst().view()
    other = renamed(records(view), "r2")
    mixed = [record for pair in zip(records(view), other, strict=True) for record in pair]

    assert judge(mixed).ok
    assert len(judge(mixed).cases["case"].verdicts) == len(judge(records(view)).cases["case"].verdicts)


def test_void_rounds_alone_are_never_a_pass() -> None:
    """A case whose every round was void is not proved, also when nobody recorded a blocker."""
    view = burst().view()
    void_round = replace(view, events=view.events[:-1])
    judgement = judge(records(void_round))

    assert not judgement.ok
    assert closing_line(judgement, ["passed"]) == "capacity ?/3 · queued max ? · final ?/? · not proved, 1 passed"
    assert "    void: r1: the event log is not whole: events [49] are missing or out of order" in in_words(judgement)


def test_a_void_round_before_a_good_one_is_told_and_does_not_count() -> None:
    """The repeated round is the proof; the void one stays visible."""
    view = burst().view()
    void_round = replace(view, events=view.events[:-1])
    judgement = judge(records(void_round) + renamed(records(view), "r2"))

    assert judgement.ok
    assert [round_id for round_id, _ in judgement.cases["case"].voids] == ["r1"]


def test_the_worst_numbers_are_told() -> None:
    """Of two bursts the one that missed capacity speaks, and what stayed in flight is shown."""
    story = full()
    story.end("r1")
    story.grant("w1", "b")
    left = snapshot(totals={**status()["totals"], "in_flight": 3})
    bad = replace(story.view(), snapshots=(snapshot(), left))
    judgement = judge(records(burst().view()) + renamed(records(bad), "r2"))

    assert not judgement.ok
    assert closing_line(judgement, ["passed", "failed"]).startswith(
        "capacity 3/3 · queued max 1 · final 3/0 · 1 failed"
    )


def test_a_blocker_fails_a_run_in_which_everything_else_passed() -> None:
    """A host that is down is never papered over; the same reason is counted once."""
    blocked: list[Record] = [Blocker(9.0, case, "node n2 is offline") for case in ("reachable", "fifo")]
    judgement = judge(records(burst().view()) + blocked)

    assert not judgement.ok
    assert closing_line(judgement, ["passed"]).endswith("1 passed, 1 blocked")
    assert "BLOCKER: fifo: node n2 is offline" in in_words(judgement)


def test_facts_and_single_answers_are_judged_too() -> None:
    """A read-only fact that is wrong and an answer that is missing each fail the run."""
    fact = Seen(0.0, "models", "models", {"ids": [], "one": None})
    answer = msgspec.structs.replace(request("r1", stream=False), round_id=None, case="chat")
    judgement = judge([environment(), fact, answer])

    assert [case.case for case in judgement.cases.values() if not case.ok] == ["models", "chat"]


def test_nothing_recorded_is_nothing_proved() -> None:
    """An environment alone proves nothing, and without one there is nothing to measure by."""
    assert not judge([environment()]).ok
    with pytest.raises(NoEnvironment):
        judge([])


def saved(folder: Path, found: list[Record], *, finished: bool = True) -> Path:
    """A folder with this history, whole or interrupted; returns the file."""
    write(folder / MERGED, [*found, Finished(9.0, len(found))] if finished else found)
    return folder / MERGED


def test_judging_a_folder_again_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m smoke.judge DIR` ends with the closing line and tells the outcome by its exit code."""
    view = burst().view()
    saved(tmp_path, records(view))
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path / "history.jsonl")]) == 0
    assert capsys.readouterr().out.endswith("capacity 3/3 · queued max 1 · final 0/0 · 1 passed\n")

    saved(tmp_path, records(replace(view, requests=view.requests[1:])))
    assert main([str(tmp_path)]) == 1
    assert "FAILED: all succeed: 3 of 4" in capsys.readouterr().out


def test_a_folder_without_a_history_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be judged is said on stderr: no file, an empty one, one of another program."""
    assert main([str(tmp_path)]) == 2
    write(tmp_path / MERGED, [])
    assert main([str(tmp_path)]) == 2
    assert "no Environment record" in capsys.readouterr().err
    (tmp_path / MERGED).write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe" + b'{"some": "json"}\n')
    assert main([str(tmp_path)]) == 2
    assert "no line of the history is a record of smoke; history.jsonl:1 cannot be read" in capsys.readouterr().err


def test_a_history_that_was_cut_off_is_never_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the middle of a line, between two lines, without its end: each is told, and fails."""
    path = saved(tmp_path, records(burst().view()))
    whole = path.read_bytes().splitlines(keepends=True)
    for left, words in (
        (b"".join(whole)[:-200], "the history has no end"),
        (b"".join(whole[:-3]), "the history has no end: the run was interrupted, or the file was cut off"),
        (b"".join([*whole[:1], *whole[2:]]), f"{len(whole) - 2} of {len(whole) - 1} records are in the history"),
    ):
        path.write_bytes(left)
        assert main([str(tmp_path)]) == 1
        assert words in capsys.readouterr().out


def test_what_pytest_said_is_told_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The count of the closing line is that of the tests, and a test that failed fails the judgement."""
    view = records(burst().view())
    saved(tmp_path, [*view, *(Reported(8.0, f"test_{n}", "passed") for n in range(13))])
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("final 0/0 · 13 passed\n")

    saved(tmp_path, [*view, Reported(8.0, "test_x", "failed"), Reported(8.0, "test_y", "passed")])
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith("final 0/0 · 1 failed, 1 passed\n")


def test_a_program_reads_the_judgement_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints one object: the line, the maxima of each burst, verdicts, void rounds, blockers, tests."""
    saved(tmp_path, [*records(burst().view()), Blocker(1.0, "reachable", "n2 is offline")])
    assert main([str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)

    assert told["ok"] is False
    assert told["line"] == "capacity 3/3 · queued max 1 · final 0/0 · 1 passed, 1 blocked"
    assert told["bursts"] == [
        {
            "case": "case", "requests": 4, "final": {"in_flight": 0, "queued": 0},
            "max": {"in_flight": 3, "queued": 1, "providers": {"a": 1, "b": 2}},
        }
    ]  # fmt: skip
    assert {"name": "exactly 1 queued", "ok": True, "detail": "max 1"} in told["cases"][0]["verdicts"]
    assert told["blockers"] == [{"case": "reachable", "reason": "n2 is offline"}]


def test_the_reports_are_written_again_from_the_history_alone(tmp_path: Path) -> None:
    """`--report` makes both files anew; without it nothing is written."""
    saved(tmp_path, [*records(burst().view()), Reported(8.0, "test_x", "passed")])
    assert main([str(tmp_path)]) == 0
    assert [one.name for one in tmp_path.iterdir()] == [MERGED]

    assert main([str(tmp_path), "--report"]) == 0
    assert "- passed: test_x" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "✓ passed" in (tmp_path / "report.html").read_text(encoding="utf-8")
