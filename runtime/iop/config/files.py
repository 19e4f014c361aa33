"""Files that a config names on this machine: token files must be there, hold a token and be closed to others."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from iop.config.document import Document, View
from iop.config.findings import Finding


def check_files(document: Document, folder: Path) -> tuple[Finding, ...]:
    """Look at each token file that stands in the document; relative paths are taken from `folder`."""
    return tuple(finding for place in _token_files(document) for finding in _look(place, folder))


def _token_files(document: Document) -> Iterator[View]:
    root = View(document, (), document.data)
    yield root.child("auth").child("admin_token_file")
    yield root.child("node").child("token_file")
    for entry in (*root.items("nodes"), *root.items("edges")):
        yield entry.child("token_file")


def _look(place: View, folder: Path) -> Iterator[Finding]:
    if not isinstance(place.data, str) or not place.data or "\0" in place.data:
        return
    try:
        about = (folder / place.data).stat()
        empty = not (folder / place.data).read_bytes().strip()
    except OSError as error:
        message = f"the token file cannot be read: {error.strerror or error}"
        yield place.error("token_file", message, "write the token there, mode 0600; paths are relative to this file")
        return
    if empty:
        yield place.error("token_file", "the token file is empty", "write the token there, mode 0600")
    if os.name == "posix" and about.st_mode & stat.S_IRWXO:
        mode = stat.S_IMODE(about.st_mode)
        message = f"every user of this machine can reach the token file (mode {mode:04o})"
        yield place.error("token_file_open", message, "chmod 600 it")
