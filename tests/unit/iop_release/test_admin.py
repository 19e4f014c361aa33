"""iop_release.admin: the admin port in words, and a token that nobody sees."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release.admin import Admin
from iop_release.errors import ReleaseError
from tests.fakes.admin_port import TOKEN, AdminPort, admin_port


@pytest.fixture
def port(tmp_path: Path) -> Iterator[AdminPort]:
    """An admin port without nodes."""
    with admin_port(tmp_path) as port:
        yield port


def test_refusals_name_the_token_file_and_never_the_token(port: AdminPort, tmp_path: Path) -> None:
    """A wrong token, no file, no Edge: each in words."""
    wrong = tmp_path / "wrong.token"
    wrong.write_text("not-it", encoding="utf-8")
    with pytest.raises(ReleaseError, match="no token") as refused:
        Admin(port.url, wrong).drain("a", 1, "")
    assert str(wrong) in str(refused.value)
    assert "not-it" not in str(refused.value)
    with pytest.raises(ReleaseError, match="no admin token"):
        Admin(port.url, tmp_path / "none").undrain("a")
    with pytest.raises(ReleaseError, match="answers nothing"):
        Admin("http://127.0.0.1:1").status()
    assert TOKEN not in str(refused.value)
