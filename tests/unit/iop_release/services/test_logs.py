"""iop_release.services.logs: last words, and files that do not grow for ever."""

from pathlib import Path

import pytest

from iop_release.services import logs


def test_the_last_words_of_several_files(tmp_path: Path) -> None:
    """The ends of all of them, indented; a note when there are none."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert logs.last_words(one, two) == "  | (nothing was logged)"
    one.write_text("".join(f"{number}\n" for number in range(100)), encoding="utf-8")
    two.write_bytes(b"\xff oh\n")
    assert logs.last_words(one, two).splitlines()[-2:] == ["  | 99", "  | \ufffd oh"]
    assert len(logs.tail(one)) == 15


def test_a_file_that_has_grown_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, for the program has it open; a small one and one that is not there are left alone."""
    monkeypatch.setattr(logs, "OUTPUT_BYTES", 100)
    path = tmp_path / "x.out"
    logs.cut(path)
    path.write_bytes(b"a" * 100)
    logs.cut(path)
    assert path.stat().st_size == 100
    inode = path.stat().st_ino
    path.write_bytes(b"a" * 200 + b"0123456789")
    logs.cut(path)
    assert (path.read_bytes(), path.stat().st_ino) == (b"0123456789", inode)
