"""iop_release.put: a file of a host, written only where it differs."""

import os
from pathlib import Path

from iop_release.put import differences, put


def test_a_file_is_written_once_for_the_owner_alone(tmp_path: Path) -> None:
    """Folders are made, the second call changes nothing, and a dry run writes nothing."""
    path = tmp_path / "shared" / "node.yaml"

    assert put([path], b"a: 1\n", dry_run=True) == [str(path)]
    assert not path.parent.exists()
    assert put([path], b"a: 1\n") == [str(path)]
    assert put([path], b"a: 1\n") == []

    assert path.read_bytes() == b"a: 1\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_open_permissions_count_as_different(tmp_path: Path) -> None:
    """A file that others may read is written anew."""
    path = tmp_path / "edge.yaml"
    path.write_bytes(b"a: 1\n")
    path.chmod(0o644)

    assert put([path], b"a: 1\n") == [str(path)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_only_what_differs_is_told(tmp_path: Path) -> None:
    """Of two files the one with the right text stays out of the differences and of what was written."""
    same, other = tmp_path / "edge.yaml", tmp_path / ".edge.yaml.deployed"
    put([same], b"new\n")
    put([other], b"old\n")

    told = differences([same, other], b"new\n")

    assert [(one["before"], one["after"], one["after_header"]) for one in told] == [("old\n", "new\n", str(other))]
    assert put([same, other], b"new\n") == [str(other)]


def test_what_an_interrupted_write_left_is_no_hindrance(tmp_path: Path) -> None:
    """A temporary file of a run that was killed is replaced."""
    (tmp_path / ".edge.yaml.new").write_bytes(b"half")

    assert put([tmp_path / "edge.yaml"], b"whole\n") == [str(tmp_path / "edge.yaml")]
    assert [path.name for path in tmp_path.iterdir()] == ["edge.yaml"]


def test_a_mode_of_its_own(tmp_path: Path) -> None:
    """A file that a service's account reads through its group; another mode counts as different."""
    path = tmp_path / "node.yaml"

    assert put([path], b"a: 1\n", mode=0o640) == [str(path)]
    assert path.stat().st_mode & 0o777 == 0o640
    assert put([path], b"a: 1\n", mode=0o640) == []
    assert put([path], b"a: 1\n") == [str(path)]


def test_folders_above_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask: who could write in one of them could replace what is below."""
    before = os.umask(0o002)
    try:
        put([tmp_path / "shared" / "tokens" / "node.token"], b"t")
    finally:
        os.umask(before)

    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("shared", "shared/tokens")] == [0o700, 0o700]
