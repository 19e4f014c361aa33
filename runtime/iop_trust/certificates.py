"""X.509: an authority of P-256, and the certificate of one Edge. Everything is pure: bytes and times in, bytes out.

Certificates begin a day before they are made, so that a host whose clock is behind accepts them at once.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from iop_trust.errors import TrustError

BACKDATED = timedelta(days=1)
AUTHORITY_LASTS = timedelta(days=3650)
#: 825 days in all, the most that Apple's systems take
EDGE_LASTS = timedelta(days=825) - BACKDATED
#: an Edge's certificate with less than this left is made anew
RENEW_WITHIN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Authority:
    """A key that signs, its own certificate, and while an earlier one is being replaced that one's word for it."""

    key: ec.EllipticCurvePrivateKey
    cert: x509.Certificate
    cross: x509.Certificate | None = None

    def pem(self) -> bytes:
        """Everything in one file, so that an interruption cannot part key and certificate."""
        chain = [self.cert] if self.cross is None else [self.cert, self.cross]
        return key_pem(self.key) + certs_pem(chain)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key of P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(name: str, now: datetime) -> Authority:
    """A self-signed authority; day and number in its name tell two of one installation apart."""
    key = new_key()
    tail = x509.random_serial_number() % 2**32
    subject = _name(f"iop authority {name[:24]} {now:%Y-%m-%d} {tail:08x}")
    return Authority(key, _certify(key.public_key(), subject, key, subject, now))


def cross_sign(old: Authority, new: Authority, now: datetime) -> Authority:
    """The new authority with a certificate by the old one: who trusts only the old one trusts the new one, too."""
    return Authority(
        new.key, new.cert, _certify(new.key.public_key(), new.cert.subject, old.key, old.cert.subject, now)
    )


def issue(
    authority: Authority, key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime
) -> x509.Certificate:
    """A server certificate for these names and addresses; it does not outlive its authority. Raises TrustError."""
    until = min(now + EDGE_LASTS, authority.cert.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name("iop Edge"))
        .issuer_name(authority.cert.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(serves=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    return builder.sign(authority.key, hashes.SHA256())


def why_renew(cert: x509.Certificate, authority: x509.Certificate, names: Sequence[str], now: datetime) -> str:
    """Why an Edge's certificate must be made anew, in words; empty when it is good."""
    if not issued_by(cert, authority):
        return "the authority changed"
    left = cert.not_valid_after_utc - now
    if left < RENEW_WITHIN and cert.not_valid_after_utc < authority.not_valid_after_utc:
        return f"it ends on {cert.not_valid_after_utc:%Y-%m-%d}"
    if cert.not_valid_before_utc > now:
        return f"it begins on {cert.not_valid_before_utc:%Y-%m-%d}: this clock was ahead when it was made"
    if names_of(cert) != sorted({_plain(name) for name in names}):
        return "the names or addresses of the Edge changed"
    return ""


def issued_by(cert: x509.Certificate, authority: x509.Certificate) -> bool:
    """True when this authority has signed it."""
    try:
        cert.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(cert: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate is for, sorted."""
    try:
        found = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return sorted(str(one.value) for one in found)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as PKCS #8, without a password: what protects it is the folder."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certs_pem(certs: Sequence[x509.Certificate]) -> bytes:
    """Certificates, one after the other."""
    return b"".join(cert.public_bytes(serialization.Encoding.PEM) for cert in certs)


def load_key(pem: bytes, where: str) -> ec.EllipticCurvePrivateKey:
    """A key of ours. Raises TrustError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise TrustError(f"{where} holds no private key in PEM form without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TrustError(f"{where} holds a key of another kind than P-256")
    return key


def load_certs(pem: bytes, where: str) -> list[x509.Certificate]:
    """The certificates of a file, in order. Raises TrustError."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise TrustError(f"{where} holds no certificate in PEM form") from error


def belongs(key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> bool:
    """True when the certificate is for this key."""
    return key.public_key() == cert.public_key()


def _certify(
    public: ec.EllipticCurvePublicKey,
    subject: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    now: datetime,
) -> x509.Certificate:
    """A certificate that makes `public` an authority, in the signer's word."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + AUTHORITY_LASTS)
        # one authority below it at most: the one that replaces it
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(_usage(serves=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return builder.sign(signer, hashes.SHA256())


def _usage(*, serves: bool) -> x509.KeyUsage:
    """A server signs handshakes, an authority certificates; neither does anything else."""
    return x509.KeyUsage(
        digital_signature=serves,
        key_cert_sign=not serves,
        crl_sign=not serves,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _plain(name: str) -> str:
    return str(_general(name).value)


def _general(name: str) -> x509.IPAddress | x509.DNSName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name.lower())
    except ValueError as error:  # not ASCII
        raise TrustError(f"{name!r} is no host name that a certificate can hold", "write its xn-- form") from error
