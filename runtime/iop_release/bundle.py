"""Zip files with the same bytes for the same content: the release of one platform, and this package as a program."""

from __future__ import annotations

import hashlib
import io
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from iop_release.errors import ReleaseError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date that a zip can tell


def pack(path: Path, content: Mapping[str, Path | bytes]) -> None:
    """Write a zip, whole or not at all: names to files or bytes. Nothing is compressed, as wheels are already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        _write(file, content)
    fresh.replace(path)


def packed(content: Mapping[str, Path | bytes]) -> bytes:
    """The same in memory."""
    buffer = io.BytesIO()
    _write(buffer, content)
    return buffer.getvalue()


def unpack(path: Path, wanted: Mapping[str, str], folder: Path) -> None:
    """Take these files (name to sha256) out of a zip. Raises `ReleaseError` for one that is not as it was built."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name, digest in wanted.items():
                _take(archive, name, digest, folder)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ReleaseError(f"{path} is damaged: {error}", "delete it: the next deploy sends it again") from error


def size(path: Path, wanted: Mapping[str, str]) -> int:
    """The bytes that these files take, unpacked."""
    with zipfile.ZipFile(path) as archive:
        return sum(info.file_size for info in archive.infolist() if info.filename in wanted)


def _write(file: IO[bytes], content: Mapping[str, Path | bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(content):
            _add(archive, name, content[name])


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system = 3  # the same on every system that builds
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    if isinstance(content, bytes):
        archive.writestr(info, content)
        return
    info.file_size = content.stat().st_size
    with content.open("rb") as source, archive.open(info, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _take(archive: zipfile.ZipFile, name: str, digest: str, folder: Path) -> None:
    target = folder / name
    if folder.absolute() not in target.absolute().parents or ".." in Path(name).parts:
        raise ReleaseError(f"{archive.filename} holds a file outside of its folder: {name!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    seen = hashlib.sha256()
    with archive.open(name) as source, target.open("wb") as file:
        for block in iter(lambda: source.read(1 << 20), b""):
            seen.update(block)
            file.write(block)
    if seen.hexdigest() != digest:
        raise ReleaseError(
            f"{name} in {archive.filename} is not the file that was built", "delete the zip, deploy again"
        )
