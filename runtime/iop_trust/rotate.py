"""Replacing a secret on purpose. The hosts get it with the next deploy; until then what they have stays good."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from iop_trust import certificates, keep, tokens
from iop_trust.certificates import Authority
from iop_trust.errors import TrustError
from iop_trust.store import Store


@dataclass(frozen=True, slots=True)
class Rotation:
    """What is to be replaced. `retire_ca` ends the change of authority that `ca` begins."""

    node_ids: Sequence[str] = ()
    all_nodes: bool = False
    admin: bool = False
    edge: bool = False
    ca: bool = False
    retire_ca: bool = False


def rotate(store: Store, wanted: Rotation, name: str, now: datetime) -> list[str]:
    """Replace; returns the names of the files that were written. Raises TrustError, then nothing was."""
    names = _token_files(store, wanted)
    if wanted.ca and wanted.retire_ca:
        raise TrustError("an authority is retired only after a deploy of every host with the next one", "first --ca")
    if wanted.ca:
        _replace_authority(store, name, now)
    if wanted.retire_ca:
        _retire(store)
    if wanted.edge:
        store.write(keep.EDGE_KEY, certificates.key_pem(certificates.new_key()))  # `keep` makes the certificate
    for token in names:
        tokens.make(store, token)
    return store.written


def _token_files(store: Store, wanted: Rotation) -> list[str]:
    tokens.check_ids(wanted.node_ids)
    known = sorted(path.name for path in store.path.glob("*.token") if path.name != tokens.ADMIN)
    named = [tokens.file_of(node_id) for node_id in wanted.node_ids]
    missing = [token for token in named if token not in known]
    if missing:
        have = ", ".join(token.removesuffix(".token") for token in known) or "none"
        raise TrustError(f"there is no token {store.path / missing[0]}", f"name a node of this environment: {have}")
    return (known if wanted.all_nodes else named) + ([tokens.ADMIN] if wanted.admin else [])


def _replace_authority(store: Store, name: str, now: datetime) -> None:
    """A new authority, vouched for by the old one: it makes no difference in which order hosts learn of it."""
    old = keep.read_authority(store)
    if old is None:
        raise TrustError(f"{store.path / keep.CA_KEY} is not there", "deploy once, or put the key back for this run")
    if old.cross is not None:
        raise TrustError("a change of authority is under way", "deploy every host, then rotate --retire-ca")
    new = certificates.make_authority(name, now)
    store.write(keep.CA_KEY, certificates.cross_sign(old, new, now).pem())


def _retire(store: Store) -> None:
    """Only the newest authority is trusted from now on."""
    found = keep.read_authority(store)
    if found is None:
        raise TrustError(f"{store.path / keep.CA_KEY} is not there", "put the key back for this run")
    pem = store.read(keep.CA)
    trusted = certificates.load_certs(pem, str(store.path / keep.CA)) if pem is not None else []
    if found.cross is not None and trusted[:1] != [found.cert]:
        raise TrustError("the new authority has not been deployed yet", "deploy every host first")
    if found.cross is None and len(trusted) == 1:
        raise TrustError("only one authority is trusted: there is none to retire")
    store.write(keep.CA, certificates.certs_pem([found.cert]))
    store.write(keep.CA_KEY, Authority(found.key, found.cert).pem())
