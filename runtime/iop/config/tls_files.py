"""TLS files that a config names on this machine: certificates with their keys, and the CAs that are trusted."""

import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

from iop.config.document import Document, View
from iop.config.findings import Finding

_PAIR_HINT = "name a certificate (with its chain) and its key, PEM, without a password; paths are relative to this file"
_CA_HINT = "name the CA's certificate, PEM; paths are relative to this file"


def check_tls_files(document: Document, folder: Path) -> tuple[Finding, ...]:
    """Look at each certificate, key and CA file that stands in the document; paths are taken from `folder`."""
    root = View(document, (), document.data)
    tls = root.child("tls")
    pairs = (tls, *(tls.child(name) for name in ("openai", "nodes", "admin")))  # control.yaml has one, edge.yaml three
    authorities = (root.child("edge").child("ca_file"), *(entry.child("ca_file") for entry in root.items("edges")))
    return (
        *(finding for pair in pairs for finding in _look_at_pair(pair, folder)),
        *(finding for place in authorities for finding in _look_at_ca(place, folder)),
    )


def _look_at_pair(pair: View, folder: Path) -> Iterator[Finding]:
    cert, key = (_path(pair.child(name), folder) for name in ("cert", "key"))
    for name, path in (("cert", cert), ("key", key)):
        trouble = _unreadable(path) if path is not None else None
        if trouble is not None:
            yield pair.child(name).error("tls_file", f"this file cannot be read: {trouble}", _PAIR_HINT)
            return
    if key is not None and os.name == "posix" and (mode := stat.S_IMODE(key.stat().st_mode)) & stat.S_IRWXO:
        message = f"every user of this machine can reach the key (mode {mode:04o})"
        yield pair.child("key").error("tls_key_open", message, "chmod 600 it")
    if cert is None or key is None:
        return
    try:
        # a password of our own, so that an encrypted key is an error and no question on the terminal
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = "the key does not belong to the certificate"
            yield pair.child("key").error("tls_file", message, "name the key that the certificate was made for")
        else:
            yield pair.child("cert").error("tls_file", "certificate and key cannot be used together", _PAIR_HINT)


def _look_at_ca(place: View, folder: Path) -> Iterator[Finding]:
    path = _path(place, folder)
    if path is None:
        return
    trouble = _unreadable(path)
    if trouble is not None:
        yield place.error("tls_file", f"this file cannot be read: {trouble}", _CA_HINT)
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        yield place.error("tls_file", "no certificate in PEM form is in this file", _CA_HINT)


def _path(place: View, folder: Path) -> Path | None:
    """The file that is named here; None where nothing, or no path, stands."""
    data = place.data
    return folder / data if isinstance(data, str) and data and "\0" not in data else None


def _unreadable(path: Path) -> str | None:
    try:
        path.read_bytes()
    except OSError as error:
        return error.strerror or str(error)
    return None
