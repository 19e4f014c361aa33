"""What an environment needs to trust: made where it is missing, made anew where it is due, else left as it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from iop_trust import certificates, tokens
from iop_trust.certificates import Authority
from iop_trust.errors import TrustError
from iop_trust.store import Store

CA, CA_KEY, EDGE, EDGE_KEY = "ca.pem", "ca.key", "edge.pem", "edge.key"
#: what every Edge's certificate is for, whatever else
ALWAYS = ("localhost", "127.0.0.1", "::1")
#: an authority with less than this left is worth a remark
REMARK_WITHIN = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The environment's name, its node ids, and the names and addresses by which nodes reach the Edge."""

    name: str
    node_ids: Sequence[str] = ()
    addresses: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """What the Edge's certificate is for."""
        return list(dict.fromkeys((*self.addresses, *ALWAYS)))


@dataclass(slots=True)
class Kept:
    """What there is now. No secret stands here: hashes, times and reasons."""

    edge_sha256: str
    expires: datetime
    authority_expires: datetime
    renewed: str
    tokens: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def as_json(self, store: Store) -> dict[str, Any]:
        """For `--json`, with the paths of the files."""
        return {
            "changed": bool(store.written),
            "written": store.written,
            "folder": str(store.path),
            "files": {name: str(store.path / name) for name in (CA, EDGE, EDGE_KEY, tokens.ADMIN)},
            "token_files": {node: str(store.path / tokens.file_of(node)) for node in self.tokens},
            "tokens": self.tokens,
            "edge_cert": self.edge_sha256,
            "expires": f"{self.expires:%Y-%m-%dT%H:%M:%SZ}",
            "authority_expires": f"{self.authority_expires:%Y-%m-%dT%H:%M:%SZ}",
            "renewed": self.renewed,
            "remarks": self.remarks,
        }


def keep(store: Store, wanted: Wanted, now: datetime) -> Kept:
    """Bring the folder to what is wanted. Raises TrustError."""
    tokens.check_ids(wanted.node_ids)
    authority = _authority(store, wanted.name, now)
    trusted = _trusted(store, authority)
    current = trusted[0]
    _refuse_outdated(current, now)
    reason, edge = _edge(store, authority, current, wanted.names, now)
    tokens.keep(store, tokens.ADMIN)
    kept = Kept(
        edge_sha256=edge.fingerprint(hashes.SHA256()).hex(),
        expires=edge.not_valid_after_utc,
        authority_expires=current.not_valid_after_utc,
        renewed=reason,
        tokens={node_id: tokens.keep(store, tokens.file_of(node_id)) for node_id in wanted.node_ids},
    )
    if current.not_valid_after_utc - now < REMARK_WITHIN:
        kept.remarks.append(f"the authority ends on {current.not_valid_after_utc:%Y-%m-%d}: rotate --ca")
    if len(trusted) > 1:
        kept.remarks.append("an earlier authority is still trusted: when every host is deployed, rotate --retire-ca")
    return kept


def read_authority(store: Store) -> Authority | None:
    """The authority with its key; None when the key is not here (not made yet, or kept elsewhere)."""
    pem = store.read(CA_KEY)
    if pem is None:
        return None
    where = str(store.path / CA_KEY)
    key, certs = certificates.load_key(pem, where), certificates.load_certs(pem, where)
    if not certificates.belongs(key, certs[0]):
        raise TrustError(f"in {where} the certificate is not for the key", "put back the file as it was, or delete it")
    return Authority(key, certs[0], certs[1] if len(certs) > 1 else None)


def _authority(store: Store, name: str, now: datetime) -> Authority | None:
    found = read_authority(store)
    if found is None and store.read(CA) is None:
        found = certificates.make_authority(name, now)
        store.write(CA_KEY, found.pem())
    return found


def _trusted(store: Store, authority: Authority | None) -> list[x509.Certificate]:
    """What nodes trust, the current authority first. An earlier one stays until it is retired."""
    pem = store.read(CA)
    found = certificates.load_certs(pem, str(store.path / CA)) if pem is not None else []
    if authority is None:
        return found
    wanted = [authority.cert, *(cert for cert in found if cert != authority.cert)]
    if wanted != found:
        store.write(CA, certificates.certs_pem(wanted))
    return wanted


def _refuse_outdated(cert: x509.Certificate, now: datetime) -> None:
    if cert.not_valid_before_utc > now:
        message = f"the authority is not valid before {cert.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        raise TrustError(message, f"set the clock of this machine, which says {now:%Y-%m-%d %H:%M} UTC")
    if cert.not_valid_after_utc <= now:
        message = f"the authority ended on {cert.not_valid_after_utc:%Y-%m-%d}"
        raise TrustError(message, "python -m iop_trust rotate --ca, then deploy every host")


def _edge(
    store: Store, authority: Authority | None, current: x509.Certificate, names: list[str], now: datetime
) -> tuple[str, x509.Certificate]:
    """The Edge's certificate, and why it was made anew. Its key stays, so that a renewal replaces one file only."""
    key_pem, pem = store.read(EDGE_KEY), store.read(EDGE)
    key = certificates.load_key(key_pem, str(store.path / EDGE_KEY)) if key_pem is not None else certificates.new_key()
    found = certificates.load_certs(pem, str(store.path / EDGE)) if pem is not None else []
    if not found:
        reason = "there was none"
    elif not certificates.belongs(key, found[0]):
        reason = "its key changed"
    else:
        reason = certificates.why_renew(found[0], current, names, now)
    if reason and authority is None:
        raise TrustError(
            f"the Edge's certificate must be made anew ({reason}), and {store.path / CA_KEY} is not there",
            "put the key of the authority back for this run",
        )
    if key_pem is None:
        store.write(EDGE_KEY, certificates.key_pem(key))
    if authority is None:
        return reason, found[0]
    cert = certificates.issue(authority, key, names, now) if reason else found[0]
    chain = [cert] if authority.cross is None else [cert, authority.cross]
    if chain != found:
        store.write(EDGE, certificates.certs_pem(chain))
    return reason, cert
