"""iop_release.manifest: what a release is made of."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.manifest import NAME, Manifest, sha256, zip_name
from iop_release.targets import Target

ARM, ARM_NEW, WINDOWS = Target("linux-arm64", "3.12"), Target("linux-arm64", "3.14"), Target("windows-amd64", "3.12")
TARGETS = (ARM, ARM_NEW, WINDOWS)
FILES = {"w.whl": "0", **{one.lock: "1" for one in TARGETS}, **{f"{one.wheelhouse}/pip.whl": "2" for one in TARGETS}}
MANIFEST = Manifest("r1", "c" * 40, "0.1.0", "w.whl", tuple(one.name for one in TARGETS), FILES)


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
    manifest.verify_one(tmp_path, "w.whl")
    with pytest.raises(ReleaseError, match=r"iop-node-linux-arm64\.zip is missing"):
        replace(manifest, zips={"linux-arm64": "0"}).verify(tmp_path)

    file.write_bytes(b"touched")
    with pytest.raises(ReleaseError, match=r"w\.whl is not the file"):
        manifest.verify(tmp_path)
    file.unlink()
    with pytest.raises(ReleaseError, match=r"w\.whl is missing"):
        manifest.verify(tmp_path)


def test_a_zip_has_a_manifest_of_its_own(tmp_path: Path) -> None:
    """It names what one platform needs, for each of its Pythons, and is read from within the zip."""
    mine = MANIFEST.of_platform("linux-arm64")
    with zipfile.ZipFile(tmp_path / zip_name("linux-arm64"), "w") as archive:
        archive.writestr(NAME, mine.text())

    assert Manifest.load(tmp_path / "iop-node-linux-arm64.zip") == mine
    assert mine.targets == (ARM.name, ARM_NEW.name)
    assert mine.files.keys() == {
        "w.whl",
        ARM.lock,
        ARM_NEW.lock,
        *(n for n in FILES if n.startswith("wheelhouse-linux")),
    }
    (tmp_path / "torn.zip").write_bytes(b"PK")
    with pytest.raises(ReleaseError, match=r"no usable manifest\.json in .*torn\.zip") as raised:
        Manifest.load(tmp_path / "torn.zip")
    assert "copy it here again" in str(raised.value)


def test_a_host_gets_what_it_can_run() -> None:
    """One wheelhouse for this platform and Python; for another host the error names it and what there is."""
    assert MANIFEST.of_target(ARM).keys() == {"w.whl", ARM.lock, f"{ARM.wheelhouse}/pip.whl"}
    with pytest.raises(ReleaseError) as caught:
        MANIFEST.of_target(Target("linux-x86_64", "3.13"))
    text = str(caught.value)
    assert "nothing for this host (linux-x86_64 with Python 3.13)" in text
    assert "built for linux-arm64 with Python 3.12; linux-arm64 with Python 3.14; windows-amd64" in text
    assert "--target linux-x86_64:3.13" in text
