"""iop.ops.token: where the admin token is read from."""

from pathlib import Path

import pytest

from iop.ops.token import NoToken, admin_token
from tests.fakes.remote_inventory import remote
from tests.fakes.smoke_story import inventory


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_each_kind_of_environment_has_its_place(tmp_path: Path) -> None:
    """Beside the live config on loopback, among the installation's secrets for real hosts."""
    here, there = inventory(tmp_path), remote(tmp_path)
    _write(here.home / "admin.token", "loop\n")
    _write(there.home / "trust" / "edge.admin.token", "real\n")

    assert (admin_token(here), admin_token(there)) == ("loop", "real")


def test_a_file_that_is_given_is_the_only_one(tmp_path: Path) -> None:
    """`--token-file` goes before, and is not replaced when it is missing."""
    here = inventory(tmp_path)
    _write(here.home / "admin.token", "loop\n")
    _write(tmp_path / "own", "mine\n")

    assert admin_token(here, str(tmp_path / "own")) == "mine"
    with pytest.raises(NoToken, match="no admin token at"):
        admin_token(here, str(tmp_path / "none"))


@pytest.mark.parametrize("text", ["", "\n", "two\nlines", "ümlaut"])
def test_what_is_no_token_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    """The file is named, its content is not."""
    _write(tmp_path / "own", text)
    with pytest.raises(NoToken, match="holds no token") as caught:
        admin_token(inventory(tmp_path), str(tmp_path / "own"))
    assert "lines" not in str(caught.value)
