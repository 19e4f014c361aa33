"""A run's files are written together, and old runs make room."""

from pathlib import Path

from smoke import evidence
from smoke.judgement import judge
from tests.fakes.smoke_story import burst, records


def test_both_reports_lie_in_the_runs_folder(tmp_path: Path) -> None:
    """`report.md` and `report.html` say the same of the same run."""
    path = evidence.write(tmp_path, judge(records(burst().view())), {"test_x": "passed"}, "the closing line")

    assert path == tmp_path / "report.html"
    assert "the closing line" in path.read_text(encoding="utf-8")
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith(f"# Smoke of test, run {tmp_path.name}")


def test_the_oldest_runs_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """Only folders that a run has made, told by their names, and never what a link points to."""
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    names = [f"2026010{day}T120000-1{day}" for day in range(1, 6)]
    for name in (*names, "kept-by-hand", "20250101T000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.jsonl").touch()
    (tmp_path / "20240101T000000-7").symlink_to(elsewhere, target_is_directory=True)

    assert evidence.prune(tmp_path, keep=3) == names[:2]
    left = sorted(one.name for one in tmp_path.iterdir())
    assert left == ["20240101T000000-7", "20250101T000000", *names[2:], "kept-by-hand"]
    assert evidence.prune(tmp_path, keep=3) == []
    elsewhere.rmdir()
