"""The small files that an Edge writes for its next start."""

import logging
from pathlib import Path

import pytest

from iop.wiring.notes import Note, note_path


def test_a_note_lies_beside_the_config_or_in_the_state_folder() -> None:
    """The variable names the folder; the name stays that of the config with its suffix."""
    config = Path("/srv/iop/shared/edge.yaml")
    assert note_path(config, ".x", {}) == Path("/srv/iop/shared/edge.yaml.x")
    assert note_path(config, ".x", {"IOP_STATE_DIR": "/var/lib/iop"}) == Path("/var/lib/iop/edge.yaml.x")


def test_a_note_is_read_back_and_leaves_nothing_else(tmp_path: Path) -> None:
    """None at first; then what was written, alone in its folder."""
    note = Note(tmp_path / "n", "nothing")
    assert note.read() is None
    note.write({"a": 1})
    note.write({"a": 2})
    assert note.read() == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["n"]


@pytest.mark.parametrize("text", ["", "{", "[]", "1"])
def test_a_broken_note_is_none(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be used is said once, and may be written over."""
    (tmp_path / "n").write_text(text)
    note = Note(tmp_path / "n", "nothing")
    assert note.read() is None
    assert "cannot be read" in caplog.text
    note.write({})
    assert note.read() == {}


def test_a_note_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It names the file and what is lost, and raises nothing."""
    Note(tmp_path / "gone" / "n", "drains are lost").write({})
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "drains are lost" in caplog.text
