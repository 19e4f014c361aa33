"""iop_trust.tokens: one file each, told by hash."""

import hashlib
from pathlib import Path

import pytest

from iop_trust import tokens
from iop_trust.errors import TrustError
from iop_trust.store import Store


def test_a_token_is_made_once_and_told_by_its_hash(tmp_path: Path) -> None:
    """32 random bytes; the second call makes none; the hash is that of the token without its line end."""
    store = Store(tmp_path)

    first, second = tokens.keep(store, "n.token"), tokens.keep(store, "n.token")

    content = (tmp_path / "n.token").read_bytes()
    assert first == second == hashlib.sha256(content.strip()).hexdigest()
    assert len(content.strip()) == 43
    assert store.written == ["n.token"]
    assert tokens.keep(store, "other.token") != first


def test_a_dry_run_knows_no_hash_of_a_token_that_is_not_made(tmp_path: Path) -> None:
    """Of one that is there it does."""
    tokens.make(Store(tmp_path), "n.token")
    dry = Store(tmp_path, dry_run=True)

    assert tokens.keep(dry, "n.token") == tokens.keep(Store(tmp_path), "n.token")
    assert tokens.keep(dry, "new.token") == tokens.NO_HASH


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"caf\xc3\xa9", b"one\ntwo"])
def test_a_file_without_a_token_is_refused_without_its_content(tmp_path: Path, content: bytes) -> None:
    """Empty, several words or lines, or no ASCII: named, not repeated."""
    (tmp_path / "n.token").write_bytes(content)

    with pytest.raises(TrustError, match=r"n\.token holds no token") as caught:
        tokens.keep(Store(tmp_path), "n.token")
    assert "two" not in str(caught.value)


@pytest.mark.parametrize("ids", [["../up"], ["a/b"], [""], ["a", "A"], ["edge.admin"], ["Edge.Admin"], ["x" * 129]])
def test_ids_that_would_leave_the_folder_or_share_a_file_are_refused(ids: list[str]) -> None:
    """No path, and no two names that a file system without upper case takes for one."""
    with pytest.raises(TrustError):
        tokens.check_ids(ids)


def test_ordinary_ids_pass() -> None:
    """The ids of the inventory."""
    tokens.check_ids(["mac-codex-node", "gx10-vllm-node", "n.1_2"])
