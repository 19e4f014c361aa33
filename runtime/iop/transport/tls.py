"""TLS at both ends: contexts made from PEM files, and what went wrong in words.

TLS 1.2 at least. Who dials trusts the CA of one file and nothing else, and the name or IP address it dialled must
stand in the certificate's subject alternative names.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

#: seconds for a handshake: a silent peer holds a connection no longer
HANDSHAKE_WITHIN = 10.0
#: seconds for the peer's goodbye when a connection is closed
SHUTDOWN_WITHIN = 2.0

#: what OpenSSL calls bytes that are no TLS
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}
    | {"RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "BAD_RECORD_TYPE"}
)
#: X.509 verification errors: not yet valid, expired; host name, IP address
_OUT_OF_DATE = {9: "is not valid yet", 10: "has expired"}
_WRONG_NAME = frozenset({62, 64})


class Untrusted(OSError):
    """The other end cannot be trusted, or does not speak TLS; trying again soon changes nothing."""


class ServerTls:
    """The certificate and key of one listener. Raises OSError with the reason when they cannot be used.

    `context` gives what a new connection needs: files that changed are read anew, and while they cannot be used (half
    written, say) the last good ones stay.
    """

    def __init__(self, cert: str, key: str) -> None:
        self._files = (Path(cert), Path(key))
        self._seen = self._stamps()
        self._context = server_context(cert, key)

    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now. Never raises."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            cert, key = map(str, self._files)
            try:
                self._context = server_context(cert, key)
            except OSError as error:
                _log.warning("the changed certificate is not used: %s", error)
            else:
                _log.info("certificate %s was read anew", cert)
        return self._context

    def _stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._files]


ClientTls = Callable[[], ssl.SSLContext]

#: why a handshake ended that the other end did not want
HUNG_UP = "it closed the connection in the TLS handshake: does it speak TLS there?"


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """Make the listening end's context of two PEM files. Raises OSError with the reason."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # a password of our own, so that an encrypted key is an error and no question on the terminal
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        raise OSError(f"{cert} and {key} cannot be used: {_pair_trouble(error)}") from error
    except OSError as error:
        raise OSError(error.errno, f"{cert} or {key} cannot be read: {error.strerror or error}") from error
    return context


def client_context(ca_file: str) -> ssl.SSLContext:
    """Make the dialling end's context that trusts the CA in `ca_file` only. Raises OSError with the reason."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError as error:
        raise OSError(f"{ca_file} holds no certificate in PEM form") from error
    except OSError as error:
        raise OSError(error.errno, f"{ca_file} cannot be read: {error.strerror or error}") from error
    return context


async def dial(factory: Callable[[], asyncio.Protocol], host: str, port: int, tls: ClientTls | None) -> None:
    """Connect to `host:port`, over TLS if given. Raises Untrusted or another OSError with the reason."""
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(factory, host, port)
        return
    try:
        context = tls()
    except OSError as error:
        raise Untrusted(str(error)) from error
    try:
        await loop.create_connection(
            factory,
            host,
            port,
            ssl=context,
            server_hostname=host,
            ssl_handshake_timeout=HANDSHAKE_WITHIN,
            ssl_shutdown_timeout=SHUTDOWN_WITHIN,
        )
    except ssl.SSLError as error:
        raise Untrusted(dial_trouble(error, host)) from error
    except (ConnectionResetError, BrokenPipeError) as error:
        raise ConnectionResetError(HUNG_UP) from error


def dial_trouble(error: ssl.SSLError, host: str) -> str:
    """Say in a few words why the handshake with `host`, which we dialled, failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OUT_OF_DATE:
            return f"its certificate {_OUT_OF_DATE[error.verify_code]}"
        if error.verify_code in _WRONG_NAME:
            return f"its certificate is not for {host}: the name or address must stand in subjectAltName"
        return f"its certificate was not issued by the CA in ca_file ({error.verify_message})"
    if error.reason in _NO_TLS:
        return "it speaks plain TCP there, not TLS"
    return f"the TLS handshake failed: {_reason(error)}"


def accept_trouble(error: ssl.SSLError) -> str:
    """Say in a few words why the handshake with a peer that dialled us failed."""
    reason = error.reason or ""
    if reason in _NO_TLS:
        return "it speaks no TLS, and this port speaks nothing else"
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return f"it does not accept this certificate ({_reason(error)})"
    return _reason(error)


def _pair_trouble(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if reason and "PEM" not in str(error):
        return _reason(error)
    return "they must hold a certificate and its key in PEM form, without a password"


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error) or type(error).__name__).lower().replace("_", " ")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
