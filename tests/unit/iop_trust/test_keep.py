"""iop_trust.keep: made once, then left alone until it is due."""

import asyncio
import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from iop.transport.tls import ServerTls, Untrusted, client_context, dial
from iop.transport.tls_server import serve_tls
from iop_trust.errors import TrustError
from iop_trust.keep import Wanted, keep
from iop_trust.store import Store

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
LAB = Wanted("lab", ("gx10", "mac"), ("10.77.0.11",))
FILES = ["ca.key", "ca.pem", "edge.key", "edge.pem", "edge.admin.token", "gx10.token", "mac.token"]


def run(folder: Path, wanted: Wanted = LAB, now: datetime = NOW, *, dry_run: bool = False) -> dict[str, Any]:
    """One run, as JSON."""
    store = Store(folder, dry_run=dry_run)
    with store.alone():
        return keep(store, wanted, now).as_json(store)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def _handshake(folder: Path, ca: Path) -> None:
    listening = await serve_tls(
        asyncio.Protocol, "127.0.0.1", 0, ServerTls(str(folder / "edge.pem"), str(folder / "edge.key"))
    )
    try:
        await dial(asyncio.Protocol, "127.0.0.1", listening.address[1], lambda: client_context(str(ca)))
    finally:
        listening.close()
        await listening.wait_closed()


def test_the_second_run_changes_nothing(tmp_path: Path) -> None:
    """Everything is made by the first one, and neither one tells a secret."""
    folder = tmp_path / "trust"
    first = run(folder)
    made = contents(folder)
    second = run(folder, now=NOW + 700 * DAY)

    assert (first["changed"], first["written"]) == (True, FILES)
    assert (second["changed"], second["written"], second["renewed"]) == (False, [], "")
    assert contents(folder) == made
    assert first["tokens"] == {n: hashlib.sha256(made[f"{n}.token"].strip()).hexdigest() for n in ("gx10", "mac")}
    assert {key: first[key] for key in ("tokens", "expires", "edge_cert")} == {
        key: second[key] for key in ("tokens", "expires", "edge_cert")
    }
    told = json.dumps([first, second])
    for name in ("gx10.token", "mac.token", "edge.admin.token"):
        assert made[name].decode().strip() not in told
    assert "PRIVATE" not in told


def test_a_dry_run_tells_the_same_and_makes_nothing(tmp_path: Path) -> None:
    """On a fresh machine, and where only a node is new."""
    folder = tmp_path / "trust"
    assert run(folder, dry_run=True)["written"] == FILES
    assert not folder.exists()
    run(folder)
    before = contents(folder)

    more = run(folder, Wanted("lab", ("gx10", "mac", "third"), LAB.addresses), dry_run=True)

    assert (more["written"], more["tokens"]["third"]) == (["third.token"], "0" * 64)
    assert contents(folder) == before


def test_a_renewal_replaces_one_file_only(tmp_path: Path) -> None:
    """Other addresses, or a month before the end: edge.pem alone, so that no host ever holds half of a pair."""
    folder = tmp_path / "trust"
    run(folder)
    moved = run(folder, Wanted("lab", LAB.node_ids, ("10.77.0.99",)))
    late = run(folder, Wanted("lab", LAB.node_ids, ("10.77.0.99",)), NOW + 800 * DAY)

    assert (moved["written"], moved["renewed"]) == (["edge.pem"], "the names or addresses of the Edge changed")
    assert (late["written"], late["renewed"][:10]) == (["edge.pem"], "it ends on")
    assert late["expires"] > moved["expires"]


def test_the_files_work_in_a_handshake(tmp_path: Path) -> None:
    """The Edge shows its certificate, a node that trusts ca.pem takes it, and one with another authority does not."""
    for name in ("one", "two"):
        run(tmp_path / name)

    asyncio.run(_handshake(tmp_path / "one", tmp_path / "one" / "ca.pem"))
    with pytest.raises(Untrusted, match="not issued by the CA"):
        asyncio.run(_handshake(tmp_path / "one", tmp_path / "two" / "ca.pem"))


@pytest.mark.parametrize("count", range(1, len(FILES)))
def test_a_run_that_was_interrupted_is_repaired_by_the_next(tmp_path: Path, count: int) -> None:
    """Whichever file was the last: what is there is kept, the rest is made, and the pair fits."""
    whole = tmp_path / "whole"
    run(whole)
    folder = tmp_path / "trust"
    folder.mkdir(mode=0o700)
    for name in FILES[:count]:
        (folder / name).write_bytes((whole / name).read_bytes())
        (folder / name).chmod(0o600)

    again = run(folder)

    assert again["written"] == FILES[count:]
    assert run(folder)["changed"] is False
    asyncio.run(_handshake(folder, folder / "ca.pem"))


def test_the_key_of_the_authority_may_be_kept_elsewhere(tmp_path: Path) -> None:
    """Without it nothing is wrong until a certificate is due; then it is asked for, and nothing is changed."""
    folder = tmp_path / "trust"
    run(folder)
    away = (folder / "ca.key").rename(tmp_path / "ca.key")

    assert run(folder)["changed"] is False
    before = contents(folder)
    with pytest.raises(TrustError, match=r"made anew .it ends on .*\n.*put the key of the authority back"):
        run(folder, now=NOW + 800 * DAY)
    assert contents(folder) == before
    away.rename(folder / "ca.key")
    assert run(folder, now=NOW + 800 * DAY)["written"] == ["edge.pem"]


def test_clocks_and_ends_are_told(tmp_path: Path) -> None:
    """A clock before the authority began, one after its end, and its last year."""
    folder = tmp_path / "trust"
    run(folder)

    with pytest.raises(TrustError, match=r"not valid before .*\n.*set the clock"):
        run(folder, now=NOW - 2 * DAY)
    with pytest.raises(TrustError, match=r"ended on .*\n.*rotate --ca"):
        run(folder, now=NOW + 3651 * DAY)
    assert "rotate --ca" in run(folder, now=NOW + 3640 * DAY)["remarks"][0]


def test_mixed_up_files_are_named(tmp_path: Path) -> None:
    """A certificate and a key that do not belong together in ca.key."""
    folder = tmp_path / "trust"
    run(folder)
    run(tmp_path / "other")
    key = (folder / "ca.key").read_bytes().split(b"-----BEGIN CERT")[0]
    cert = (tmp_path / "other" / "ca.pem").read_bytes()
    (folder / "ca.key").write_bytes(key + cert)

    with pytest.raises(TrustError, match=r"ca\.key the certificate is not for the key"):
        run(folder)
