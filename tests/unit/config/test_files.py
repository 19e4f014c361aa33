"""Token files on disk: there, not empty, closed to others."""

import os
from pathlib import Path

import pytest

from iop.config.document import Document
from iop.config.files import check_files

PLACES = {
    "admin": {"auth": {"admin_token_file": "t"}},
    "nodes": {"nodes": [{"token_file": "t"}]},
    "node": {"node": {"token_file": "t"}},
    "edges": {"edges": [{"token_file": "t"}]},
}


def _codes(folder: Path, data: object = PLACES["admin"]) -> list[str]:
    findings = check_files(Document("f.yaml", data), folder)  # type: ignore[arg-type]
    assert all(finding.severity == "error" for finding in findings)
    return [finding.code for finding in findings]


def _token(folder: Path, mode: int, text: str = "secret-of-this-test\n") -> None:
    (folder / "t").write_text(text)
    (folder / "t").chmod(mode)


@pytest.mark.parametrize("place", PLACES)
def test_a_missing_token_file_is_an_error_at_every_place(place: str, tmp_path: Path) -> None:
    """Each key that names a token file of this machine is looked at, relative to the config's folder."""
    assert _codes(tmp_path, PLACES[place]) == ["token_file"]
    _token(tmp_path, 0o600)
    assert _codes(tmp_path, PLACES[place]) == []


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize(
    ("mode", "codes"), [(0o600, []), (0o640, []), (0o644, ["token_file_open"]), (0o602, ["token_file_open"])]
)
def test_a_token_file_is_closed_to_others(mode: int, codes: list[str], tmp_path: Path) -> None:
    """A world-readable or world-writable token file is an error, and its content is not shown."""
    _token(tmp_path, mode)
    findings = check_files(Document("f.yaml", {"auth": {"admin_token_file": "t"}}), tmp_path)
    assert [finding.code for finding in findings] == codes
    assert "secret-of-this-test" not in "".join(map(str, findings))


def test_an_empty_token_file_or_a_folder_is_an_error(tmp_path: Path) -> None:
    """White space is no token, and a folder cannot be read as one."""
    _token(tmp_path, 0o600, " \n")
    assert _codes(tmp_path) == ["token_file"]
    (tmp_path / "t").unlink()
    (tmp_path / "t").mkdir()
    assert _codes(tmp_path) == ["token_file"]


def test_what_is_no_path_is_left_to_the_structure(tmp_path: Path) -> None:
    """A number, an empty text and a NUL are the structure's findings."""
    for value in (3, "", "a\0b", None):
        assert _codes(tmp_path, {"auth": {"admin_token_file": value}}) == []
