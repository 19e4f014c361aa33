"""iop_release.bundle: zips with the same bytes for the same content."""

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from iop_release import bundle
from iop_release.errors import ReleaseError


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    """Neither order, dates, modes nor the folder matter."""
    first, second = tmp_path / "a" / "one.whl", tmp_path / "b" / "one.whl"
    for number, path in enumerate((first, second)):
        path.parent.mkdir()
        path.write_bytes(b"wheel")
        path.chmod(0o600 + 0o44 * number)
        os.utime(path, (number, number))

    bundle.pack(tmp_path / "1.zip", {"x/one.whl": first, "a": b"text"})
    bundle.pack(tmp_path / "2.zip", {"a": b"text", "x/one.whl": second})

    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    assert (tmp_path / "1.zip").read_bytes() == bundle.packed({"a": b"text", "x/one.whl": b"wheel"})
    assert bundle.size(tmp_path / "1.zip", {"x/one.whl": ""}) == 5
    assert not list(tmp_path.glob(".*.new"))


def test_only_what_is_wanted_is_taken_out(tmp_path: Path) -> None:
    """Files come out with their folders; the others stay in."""
    path = tmp_path / "r.zip"
    bundle.pack(path, {"h/w.whl": b"wheel", "other/x": b"x"})

    bundle.unpack(path, {"h/w.whl": _digest(b"wheel")}, tmp_path / "out")

    assert [one.name for one in (tmp_path / "out").rglob("*") if one.is_file()] == ["w.whl"]
    assert (tmp_path / "out/h/w.whl").read_bytes() == b"wheel"


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    """Other bytes, a lacking file and a torn zip are each refused."""
    path = tmp_path / "r.zip"
    bundle.pack(path, {"w.whl": b"wheel"})
    with pytest.raises(ReleaseError, match=r"w\.whl in .* is not the file that was built"):
        bundle.unpack(path, {"w.whl": _digest(b"other")}, tmp_path / "out")
    with pytest.raises(ReleaseError, match="damaged"):
        bundle.unpack(path, {"x.whl": ""}, tmp_path / "out")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ReleaseError, match="damaged"):
        bundle.unpack(path, {"w.whl": _digest(b"wheel")}, tmp_path / "out")


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/abs"])
def test_a_zip_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    """A name that leaves the folder is refused."""
    path = tmp_path / "r.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"x")

    with pytest.raises(ReleaseError, match="outside of its folder"):
        bundle.unpack(path, {name: _digest(b"x")}, tmp_path / "out")
    assert not (tmp_path / "up").exists()
