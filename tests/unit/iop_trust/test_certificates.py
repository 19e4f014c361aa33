"""iop_trust.certificates: what is in a certificate, and when a new one is due."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from iop_trust import certificates as c
from iop_trust.errors import TrustError

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = ["10.77.0.11", "mac.lan", "localhost"]
CA = c.make_authority("lab", NOW)


def _cert(names: list[str] | None = None, authority: c.Authority = CA, now: datetime = NOW) -> x509.Certificate:
    return c.issue(authority, c.new_key(), NAMES if names is None else names, now)


def test_an_authority_signs_and_does_nothing_else() -> None:
    """Ten years, begun a day ago, one authority below it at most, its name with environment and day."""
    cert = CA.cert
    uses = cert.extensions.get_extension_for_class(x509.KeyUsage)
    basic = cert.extensions.get_extension_for_class(x509.BasicConstraints)

    assert (cert.not_valid_before_utc, cert.not_valid_after_utc) == (NOW - DAY, NOW + 3650 * DAY)
    assert uses.critical
    assert (uses.value.key_cert_sign, uses.value.crl_sign, uses.value.digital_signature) == (True, True, False)
    assert basic.critical
    assert (basic.value.ca, basic.value.path_length) == (True, 1)
    assert "lab 2026-11-29" in cert.subject.rfc4514_string()
    assert c.issued_by(cert, cert)
    assert c.make_authority("lab", NOW).cert.subject != cert.subject


def test_an_edge_certificate_names_addresses_as_addresses() -> None:
    """SAN with DNS and IP, for servers only, 825 days in all and begun a day ago."""
    cert = _cert(["10.77.0.11", "Mac.lan", "::1"])
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.77.0.11", "::1"]
    assert names.get_values_for_type(x509.DNSName) == ["mac.lan"]
    assert cert.not_valid_before_utc == NOW - DAY
    assert cert.not_valid_after_utc - cert.not_valid_before_utc == 825 * DAY
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert c.issued_by(cert, CA.cert)


def test_a_certificate_does_not_outlive_its_authority_and_is_then_not_made_anew_each_time() -> None:
    """In the authority's last month there is no longer one to be had."""
    late = NOW + 3640 * DAY
    cert = _cert(now=late)

    assert cert.not_valid_after_utc == CA.cert.not_valid_after_utc
    assert c.why_renew(cert, CA.cert, NAMES, late) == ""


@pytest.mark.parametrize(
    ("names", "authority", "at", "reason"),
    [
        (NAMES, CA, NOW, ""),
        ([*reversed(NAMES), "MAC.lan"], CA, NOW, ""),
        (NAMES, CA, NOW + 793 * DAY, ""),
        (NAMES, CA, NOW + 795 * DAY, "it ends on 2029-03-02"),
        (NAMES, CA, NOW + 900 * DAY, "it ends on 2029-03-02"),
        (NAMES, CA, NOW - 2 * DAY, "this clock was ahead when it was made"),
        (["10.77.0.12", "mac.lan", "localhost"], CA, NOW, "the names or addresses of the Edge changed"),
        (NAMES, c.make_authority("lab", NOW), NOW, "the authority changed"),
    ],
)
def test_when_a_new_one_is_due(names: list[str], authority: c.Authority, at: datetime, reason: str) -> None:
    """Less than 30 days left, other names, another authority, not begun yet: each told by its reason."""
    told = c.why_renew(_cert(), authority.cert, names, at)
    assert told.startswith(reason) or reason in told
    assert bool(told) == bool(reason)


def test_an_old_authority_vouches_for_the_new_one() -> None:
    """Same name and key as the new one, signed by the old one."""
    new = c.cross_sign(CA, c.make_authority("lab", NOW), NOW)
    assert new.cross is not None

    assert c.issued_by(new.cross, CA.cert)
    assert not c.issued_by(new.cert, CA.cert)
    assert (new.cross.subject, new.cross.public_key()) == (new.cert.subject, new.cert.public_key())
    assert c.issued_by(_cert(authority=new), new.cross)


def test_files_round_trip_and_what_is_none_is_told_by_its_place() -> None:
    """PEM of keys and certificates; another kind of key, a password or no PEM at all is an error in words."""
    key = c.load_key(c.key_pem(CA.key), "ca.key")
    assert c.belongs(key, CA.cert)
    assert not c.belongs(c.new_key(), CA.cert)
    assert c.load_certs(c.certs_pem([CA.cert, CA.cert]), "ca.pem") == [CA.cert, CA.cert]
    for load in (c.load_key, c.load_certs):
        with pytest.raises(TrustError, match=r"^some/file holds no"):
            load(b"secret-text", "some/file")


def test_a_name_that_no_certificate_can_hold_is_refused() -> None:
    """Names are ASCII there."""
    with pytest.raises(TrustError, match="bücher"):
        _cert(["bücher.example"])
