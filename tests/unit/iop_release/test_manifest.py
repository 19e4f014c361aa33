"""iop_release.manifest: what a release is made of."""

from dataclasses import replace
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.manifest import NAME, Manifest, sha256

MANIFEST = Manifest("r1", "c" * 40, "0.1.0", "w.whl", "lock.txt", "0" * 64, "house", {})


def test_a_manifest_survives_its_file(tmp_path: Path) -> None:
    """What is saved is what is loaded."""
    MANIFEST.save(tmp_path)

    assert Manifest.load(tmp_path) == MANIFEST


@pytest.mark.parametrize("text", ["", "{", "[]", '{"release_id": "r1"}', '{"extra": 1}'])
def test_an_unusable_manifest_is_named(tmp_path: Path, text: str) -> None:
    """Broken JSON and missing or foreign fields are refused with the folder's name."""
    (tmp_path / NAME).write_text(text, encoding="utf-8")

    with pytest.raises(ReleaseError, match=str(tmp_path)):
        Manifest.load(tmp_path)


def test_verify_names_the_file_that_differs(tmp_path: Path) -> None:
    """A changed file and a missing one are each found."""
    file = tmp_path / "w.whl"
    file.write_bytes(b"built")
    manifest = replace(MANIFEST, files={"w.whl": sha256(file)})
    manifest.verify(tmp_path)

    file.write_bytes(b"touched")
    with pytest.raises(ReleaseError, match=r"w\.whl is not the file"):
        manifest.verify(tmp_path)
    file.unlink()
    with pytest.raises(ReleaseError, match=r"w\.whl is missing"):
        manifest.verify(tmp_path)
