"""The history survives writing, merging and damage."""

from pathlib import Path

import pytest

from smoke.history import MERGED, Blocker, History, Seen, merge, read
from tests.fakes.smoke_story import burst, engine, records


def test_every_kind_of_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What a worker appended comes back equal, record by record."""
    written = [
        *records(burst().view()),
        engine("a", peak=1, runs=1),
        Seen(3.0, "c", "models", {}),
        Blocker(4.0, "c", "r"),
    ]
    History(tmp_path, "gw0").append(*written)

    assert read(tmp_path / "history-gw0.jsonl") == written


def test_workers_files_become_one_in_order_of_time(tmp_path: Path) -> None:
    """Two workers' records are merged by time, and only the merged file stays (Field case B72)."""
    History(tmp_path, "gw0").append(Blocker(1.0, "a", "first"), Blocker(3.0, "a", "third"))
    History(tmp_path, "gw1").append(Blocker(2.0, "b", "second"))

    merged = merge(tmp_path)

    assert [record.reason for record in merged if isinstance(record, Blocker)] == ["first", "second", "third"]
    assert read(tmp_path / MERGED) == merged
    assert [path.name for path in tmp_path.iterdir()] == [MERGED]


@pytest.mark.parametrize("damage", [b'{"type": "Blocker", "at": 1.0', b'{"type": "Unknown"}', b"\xff\xfe"])
def test_a_damaged_line_is_a_blocker_and_not_a_silent_loss(tmp_path: Path, damage: bytes) -> None:
    """A line cut off by a crash, or of an unknown kind, is named with file and line; the others are read."""
    good = Blocker(1.0, "case", "reason")
    History(tmp_path, "gw0").append(good)
    path = tmp_path / "history-gw0.jsonl"
    path.write_bytes(path.read_bytes() + damage)

    first, second = read(path)

    assert first == good
    assert isinstance(second, Blocker)
    assert second.reason.startswith("history-gw0.jsonl:2 cannot be read")


def test_a_history_that_is_not_there_raises(tmp_path: Path) -> None:
    """A missing file is the caller's to tell."""
    with pytest.raises(FileNotFoundError):
        read(tmp_path / MERGED)
