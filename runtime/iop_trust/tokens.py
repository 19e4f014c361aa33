"""Tokens: 32 random bytes each, one file each. Others learn their SHA-256 only."""

import hashlib
import re
import secrets
from collections.abc import Sequence

from iop_trust.errors import TrustError
from iop_trust.store import Store

ADMIN = "edge.admin.token"
#: stands for the hash of a token that is not made yet (a dry run)
NO_HASH = "0" * 64
#: as in edge.yaml
_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def file_of(node_id: str) -> str:
    """The name of a node's token file."""
    return f"{node_id}.token"


def check_ids(node_ids: Sequence[str]) -> None:
    """Raise TrustError for ids that are none, or that would share a file."""
    for node_id in node_ids:
        if not _NODE_ID.fullmatch(node_id):
            raise TrustError(f"{node_id!r} is no node id: it must match {_NODE_ID.pattern}")
    names = [file_of(node_id).lower() for node_id in node_ids]  # a Mac's disk knows no upper case
    taken = [one for one in node_ids if names.count(file_of(one).lower()) > 1 or file_of(one).lower() == ADMIN]
    if taken:
        raise TrustError(f"the token file of node {taken[0]} has the name of another one", "give the node another id")


def make(store: Store, name: str) -> None:
    """A new token in place of whatever was there."""
    store.write(name, (secrets.token_urlsafe(32) + "\n").encode())


def keep(store: Store, name: str) -> str:
    """Make the token if there is none; returns its SHA-256, NO_HASH for one that a dry run did not make.

    Raises TrustError for a file that holds no token.
    """
    if store.read(name) is None:
        make(store, name)
    token = (store.read(name) or b"").strip()
    if not token or not token.isascii() or not token.decode().isprintable() or b" " in token:
        raise TrustError(
            f"{store.path / name} holds no token: one line of printable ASCII was expected",
            "delete the file, and the next run makes a new token",
        )
    unmade = store.dry_run and name in store.written
    return NO_HASH if unmade else hashlib.sha256(token).hexdigest()
