"""TLS contexts, reloading, and what went wrong in words."""

import asyncio
import ssl
from pathlib import Path

import pytest

from iop.transport.tls import ServerTls, Untrusted, accept_trouble, client_context, dial, server_context
from iop.transport.tls_server import serve_tls
from tests.fakes.authority import FUTURE, PAST, Authority

uvloop = pytest.importorskip("uvloop")
LOOPS = pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


async def _dial(server: ServerTls, client: Authority, host: str = "127.0.0.1") -> str:
    """Dial a server once; returns why it failed, or the TLS version."""
    listening = await serve_tls(asyncio.Protocol, "127.0.0.1", 0, server)
    made: list[asyncio.BaseTransport] = []

    class Client(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)

    try:
        await dial(Client, host, listening.address[1], client.client)
    except Untrusted as error:
        return str(error)
    finally:
        listening.close()
        await listening.wait_closed()
    made[0].abort()
    return str(made[0].get_extra_info("ssl_object").version())


@LOOPS
@pytest.mark.parametrize(
    ("identities", "validity", "told"),
    [
        (("127.0.0.1",), {}, "TLSv1.3"),
        (("::1", "10.0.0.1", "127.0.0.1"), {}, "TLSv1.3"),
        (("localhost",), {}, "its certificate is not for 127.0.0.1: the name or address must stand in subjectAltName"),
        (("127.0.0.2",), {}, "its certificate is not for 127.0.0.1: the name or address must stand in subjectAltName"),
        (("127.0.0.1",), PAST, "its certificate has expired"),
        (("127.0.0.1",), FUTURE, "its certificate is not valid yet"),
    ],
    ids=["address", "several", "name-only", "other-address", "expired", "not-yet"],
)
def test_the_dialled_address_must_stand_in_a_valid_certificate(loops, tmp_path, identities, validity, told):
    """An IP address in subjectAltName is enough; another name, and a time out of range, are told in words."""
    authority = Authority(tmp_path)
    with asyncio.Runner(loop_factory=loops) as runner:
        assert runner.run(_dial(authority.server("s", *identities, **validity), authority)) == told


@LOOPS
def test_only_the_pinned_authority_is_trusted(loops, tmp_path):
    """A certificate of another authority, however valid, is refused."""
    with asyncio.Runner(loop_factory=loops) as runner:
        told = runner.run(_dial(Authority(tmp_path, "other").server(), Authority(tmp_path)))
    assert told.startswith("its certificate was not issued by the CA in ca_file (")


async def test_a_name_is_checked_too(tmp_path):
    """`localhost` in subjectAltName is what a dial of localhost needs."""
    authority = Authority(tmp_path)
    assert await _dial(authority.server("a", "localhost"), authority, "localhost") == "TLSv1.3"
    assert "is not for localhost" in await _dial(authority.server("b", "127.0.0.1"), authority, "localhost")


async def test_an_end_without_tls_is_told(tmp_path):
    """A server that answers something else, and one that cuts the connection."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp.example ESMTP\r\n")
        writer.close()

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    trust = Authority(tmp_path).client
    for handler, kind, text in (
        (greet, Untrusted, "it speaks plain TCP there, not TLS"),
        (cut, ConnectionResetError, "does it speak TLS there"),
    ):
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        with pytest.raises(kind, match=text):
            await dial(asyncio.Protocol, "127.0.0.1", server.sockets[0].getsockname()[1], trust)
        server.close()


async def test_a_ca_file_is_read_at_each_dial(tmp_path):
    """A file that is gone is told by its name, before anything is connected."""
    authority = Authority(tmp_path)
    authority.ca_file.unlink()
    with pytest.raises(Untrusted, match=r"ca\.pem cannot be read: No such file"):
        await dial(asyncio.Protocol, "127.0.0.1", 1, authority.client)


def test_files_that_cannot_be_used_are_told_without_their_contents(tmp_path):
    """Missing, no PEM, encrypted, swapped, of another pair: one OSError with the file's name."""
    authority = Authority(tmp_path)
    pair, other = authority.issue("a"), authority.issue("b")
    (tmp_path / "junk").write_text("junk")
    for cert, key, told in (
        (pair["cert"], other["key"], "the key does not belong to the certificate"),
        (str(tmp_path / "none"), pair["key"], "cannot be read: No such file"),
        (pair["cert"], str(tmp_path / "junk"), "must hold a certificate and its key in PEM form, without a password"),
        (str(tmp_path / "junk"), pair["key"], "must hold a certificate and its key in PEM form"),
        (pair["key"], pair["cert"], "must hold a certificate and its key in PEM form"),
    ):
        with pytest.raises(OSError, match=told):
            server_context(cert, key)
    with pytest.raises(OSError, match="junk holds no certificate in PEM form"):
        client_context(str(tmp_path / "junk"))
    with pytest.raises(OSError, match="none cannot be read"):
        client_context(str(tmp_path / "none"))


def test_an_old_protocol_is_refused(tmp_path):
    """TLS 1.2 is the least at both ends, and a client checks names and chain."""
    authority = Authority(tmp_path)
    client = authority.trust()
    assert authority.server().context().minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_2
    assert (client.check_hostname, client.verify_mode) == (True, ssl.CERT_REQUIRED)


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path, caplog):
    """New files serve the next connection; half of a change keeps the last good pair, with one log line."""
    authority = Authority(tmp_path)
    server = authority.server("s", **PAST)
    assert await _dial(server, authority) == "its certificate has expired"
    old = Path(tmp_path / "s.key").read_bytes()
    authority.issue("s")
    new = Path(tmp_path / "s.key").read_bytes()
    Path(tmp_path / "s.key").write_bytes(old + b"\n")
    trouble = "the key does not belong to the certificate"
    for _ in range(2):
        assert await _dial(server, authority) == "its certificate has expired"
    assert [r.getMessage() for r in caplog.records if "not used" in r.getMessage()] == [
        f"the changed certificate is not used: {tmp_path}/s.pem and {tmp_path}/s.key cannot be used: {trouble}"
    ]
    Path(tmp_path / "s.key").write_bytes(new)
    assert await _dial(server, authority) == "TLSv1.3"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("WRONG_VERSION_NUMBER", "it speaks no TLS, and this port speaks nothing else"),
        ("HTTP_REQUEST", "it speaks no TLS, and this port speaks nothing else"),
        ("TLSV1_ALERT_UNKNOWN_CA", "it does not accept this certificate (tlsv1 alert unknown ca)"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "it does not accept this certificate (sslv3 alert certificate expired)"),
        ("UNSUPPORTED_PROTOCOL", "unsupported protocol"),
    ],
)
def test_a_peer_s_trouble_in_words(reason, told):
    """What the accepting end sees of a failed handshake."""
    error = ssl.SSLError(1, "text")
    error.reason = reason
    assert accept_trouble(error) == told
