"""Files written whole or not at all."""

import stat
from pathlib import Path

import pytest

from iop.commands.config_files import ChangedMeanwhile, replace_bytes, write_secret


def test_a_file_is_replaced_and_stays_what_it_was(tmp_path: Path) -> None:
    """The link stays a link, the mode stays, nothing is left beside it."""
    real, link = tmp_path / "real.yaml", tmp_path / "edge.yaml"
    real.write_bytes(b"a\r\n")
    real.chmod(0o640)
    link.symlink_to(real.name)
    replace_bytes(link, b"a\r\n", b"b\r\n")
    assert link.is_symlink()
    assert real.read_bytes() == b"b\r\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {"real.yaml", "edge.yaml"}


def test_somebody_elses_change_is_not_overwritten(tmp_path: Path) -> None:
    """What was read is no longer there: refused, and nothing is left beside it."""
    path = tmp_path / "edge.yaml"
    path.write_bytes(b"theirs")
    with pytest.raises(ChangedMeanwhile, match="changed by somebody else"):
        replace_bytes(path, b"a", b"b")
    assert path.read_bytes() == b"theirs"
    assert [one.name for one in tmp_path.iterdir()] == ["edge.yaml"]


def test_a_secret_is_for_this_user_and_never_over_a_file(tmp_path: Path) -> None:
    """Mode 0600 from its first moment; an existing file is left alone."""
    path = tmp_path / "n1.token"
    write_secret(path, "secret")
    assert path.read_text() == "secret\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_secret(path, "other")
    assert path.read_text() == "secret\n"
