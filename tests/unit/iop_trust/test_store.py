"""iop_trust.store: files that nobody else can reach, whole or not at all."""

import os
from pathlib import Path

import pytest

from iop_trust.errors import TrustError
from iop_trust.store import Store


def test_folder_and_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask: 0700 and 0600; a second write replaces the file and leaves nothing beside it."""
    store = Store(tmp_path / "build" / "trust")
    before = os.umask(0)
    try:
        with store.alone():
            store.write("a.token", b"one")
            store.write("a.token", b"two")
    finally:
        os.umask(before)

    assert store.path.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in store.path.iterdir()} == {
        ".lock": 0o600,
        "a.token": 0o600,
    }
    assert (store.read("a.token"), store.read("b.token")) == (b"two", None)
    assert store.written == ["a.token", "a.token"]


def test_a_dry_run_writes_into_memory_only(tmp_path: Path) -> None:
    """What it wrote is read back, and no file or folder was made."""
    store = Store(tmp_path / "trust", dry_run=True)
    with store.alone():
        store.write("a.token", b"one")

    assert store.read("a.token") == b"one"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "mode", "told"), [("a.token", 0o640, "chmod 600"), ("", 0o755, "chmod 700")])
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_others_can_reach_is_refused_in_words(
    tmp_path: Path, name: str, mode: int, told: str, dry_run: bool
) -> None:
    """An open file or folder is named with its mode and what to do; a dry run says so, too."""
    folder = tmp_path / "trust"
    folder.mkdir(mode=0o700)
    (folder / "a.token").write_text("secret-text")
    (folder / "a.token").chmod(0o600)
    (folder / name).chmod(mode)

    with pytest.raises(TrustError) as caught, Store(folder, dry_run=dry_run).alone():
        pass

    assert f"{mode:04o}" in str(caught.value)
    assert str(folder / name) in str(caught.value)
    assert told in str(caught.value)
    assert "secret-text" not in str(caught.value)


def test_certificates_may_be_read_by_everyone(tmp_path: Path) -> None:
    """ca.pem and edge.pem are public; their modes are nobody's business."""
    folder = tmp_path / "trust"
    folder.mkdir(mode=0o700)
    for name in ("ca.pem", "edge.pem"):
        (folder / name).touch(mode=0o644)

    with Store(folder).alone() as nothing:
        assert nothing is None


def test_a_folder_that_cannot_be_made_or_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """The system's reason, with the path."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(TrustError, match=r"cannot use .*/file/trust: Not a directory"),
        Store(tmp_path / "file" / "trust").alone(),
    ):
        pass
    (tmp_path / "trust" / "a.token").mkdir(parents=True)
    with pytest.raises(TrustError, match=r"cannot read .*a.token"):
        Store(tmp_path / "trust").read("a.token")


def test_files_of_another_user_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that belongs to somebody else is his to change."""
    (tmp_path / "trust").mkdir(mode=0o700)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)

    with pytest.raises(TrustError, match=f"belongs to another user .uid {mine}"), Store(tmp_path / "trust").alone():
        pass
