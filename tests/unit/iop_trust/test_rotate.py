"""iop_trust.rotate: a secret is replaced, and no node loses its trust on the way."""

import asyncio
from pathlib import Path

import pytest

from iop.transport.tls import Untrusted
from iop_trust.errors import TrustError
from iop_trust.rotate import Rotation, rotate
from iop_trust.store import Store
from tests.unit.iop_trust.test_keep import NOW, _handshake, contents, run


def turn(folder: Path, **wanted: object) -> list[str]:
    """One rotation; the names of the files that it wrote."""
    store = Store(folder)
    with store.alone():
        return rotate(store, Rotation(**wanted), "lab", NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "new"),
    [
        ({"node_ids": ["gx10"]}, ["gx10.token"]),
        ({"all_nodes": True}, ["gx10.token", "mac.token"]),
        ({"admin": True}, ["edge.admin.token"]),
        ({"node_ids": ["mac"], "admin": True}, ["mac.token", "edge.admin.token"]),
    ],
)
def test_a_token_is_replaced_and_nothing_else(tmp_path: Path, wanted: dict[str, object], new: list[str]) -> None:
    """One node, all of them, or the admin API; the next deploy tells the new hashes."""
    folder = tmp_path / "trust"
    before = run(folder)
    files = contents(folder)

    assert turn(folder, **wanted) == new
    after = run(folder)

    assert {name for name, content in contents(folder).items() if content != files[name]} == set(new)
    changed = {f"{node}.token" for node in before["tokens"] if before["tokens"][node] != after["tokens"][node]}
    assert changed == {name for name in new if name != "edge.admin.token"}
    assert after["changed"] is False


def test_the_key_of_the_edge_is_replaced_with_its_certificate(tmp_path: Path) -> None:
    """The certificate follows with the next run."""
    folder = tmp_path / "trust"
    run(folder)

    assert turn(folder, edge=True) == ["edge.key"]
    assert (run(folder)["renewed"], run(folder)["changed"]) == ("its key changed", False)
    asyncio.run(_handshake(folder, folder / "ca.pem"))


def test_an_authority_is_replaced_in_any_order(tmp_path: Path) -> None:
    """Old trust with the new certificate and new trust with the old one work; after it is retired only the new does."""
    folder, old = tmp_path / "trust", tmp_path / "old"
    run(old)
    folder.mkdir(mode=0o700)
    for name, content in contents(old).items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)

    assert turn(folder, ca=True) == ["ca.key"]
    with pytest.raises(TrustError, match="has not been deployed yet"):
        turn(folder, retire_ca=True)
    during = run(folder)
    assert (during["written"], during["renewed"]) == (["ca.pem", "edge.pem"], "the authority changed")
    assert "rotate --retire-ca" in during["remarks"][0]
    assert run(folder)["changed"] is False
    for edge, trust in ((folder, old), (old, folder), (folder, folder)):
        asyncio.run(_handshake(edge, trust / "ca.pem"))
    with pytest.raises(TrustError, match="under way"):
        turn(folder, ca=True)

    assert turn(folder, retire_ca=True) == ["ca.pem", "ca.key"]
    assert (after := run(folder))["written"] == ["edge.pem"]
    assert (after["remarks"], after["renewed"], run(folder)["changed"]) == ([], "", False)
    asyncio.run(_handshake(folder, folder / "ca.pem"))
    for edge, trust in ((folder, old), (old, folder)):
        with pytest.raises(Untrusted, match="not issued by the CA"):
            asyncio.run(_handshake(edge, trust / "ca.pem"))


def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """An unknown node with the known ones named, both ends of a change at once, a key that is elsewhere."""
    folder = tmp_path / "trust"
    run(folder)
    files = contents(folder)

    for wanted, told in (
        ({"node_ids": ["third"], "admin": True}, "third.token\n  next: name a node of this environment: gx10, mac"),
        ({"ca": True, "retire_ca": True}, "first --ca"),
        ({"retire_ca": True}, "only one authority is trusted"),
        ({"node_ids": ["../x"]}, "no node id"),
    ):
        with pytest.raises(TrustError) as caught:
            turn(folder, **wanted)
        assert told in str(caught.value)
    assert contents(folder) == files
    (folder / "ca.key").unlink()
    for wanted in ({"ca": True}, {"retire_ca": True}):
        with pytest.raises(TrustError, match=r"ca\.key is not there"):
            turn(folder, **wanted)
