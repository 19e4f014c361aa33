"""The pair of a release and the config that it proved itself with, per service: what a rollback goes back to.

`accept` writes `releases/<id>/etc/<service>.json` once a service has passed its gate: its definition and the text of
its config files. So a release without that file never proved anything, and the youngest one is the last good state.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iop_release.activate import Plan, activate, plan, records
from iop_release.errors import ReleaseError
from iop_release.layout import HostRoot
from iop_release.services.contract import Service, ServiceManager

PAIRS = "etc"  # in a release's folder
# a node in an edge.yaml as the deploy renders it: its id, then within its own lines the hash of its token
_TOKEN = re.compile(r"^  - id: (\S+)\n(?:    .*\n)*?    token_sha256: (\S+)$", re.MULTILINE)


def accept(root: HostRoot, name: str, files: Sequence[Path] = ()) -> bool:
    """Keep release, definition and the text of `files` as good; False when that was known.

    `files` are its config, never a secret: a rollback must not bring back a token that was replaced.
    Raises `ReleaseError` when the service was never activated here.
    """
    record = records(root).get(name)
    if record is None or "definition" not in record:
        raise ReleaseError(f"{name} was not activated in {root.path}", "deploy it first")
    service = _service(record["definition"])
    kept = {str(path): _text(path) for path in files if path.is_file()}
    pair = {"service": asdict(service), "files": kept}
    path = _path(root, str(record["release"]), name)
    text = json.dumps(pair, indent=2) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        newest = good(root, name)[0] == record["release"]
        os.utime(path)  # the last good state is the one that was accepted last
        return not newest
    _write(path, text)
    return True


def good(root: HostRoot, name: str) -> list[str]:
    """Releases in which this service has proved itself and that are still staged, the last one first."""
    found = [(_path(root, release, name), release) for release in root.staged()]
    dated = [(path.stat().st_mtime_ns, release) for path, release in found if path.is_file()]
    return [release for _, release in sorted(dated, reverse=True)]


def target(root: HostRoot, name: str, release: str | None = None, *, last_good: bool = False) -> str:
    """The release to go back to: the given one, the last good one, or the last good one other than what runs.

    Raises `ReleaseError` when there is none.
    """
    known = good(root, name)
    if release is not None:
        if release not in known:
            raise ReleaseError(f"{name} has not run well from release {release} on this host", _choice(known))
        return release
    record = records(root).get(name)
    runs = None if last_good else (str(record["release"]) if record else root.pointer("current"))
    for one in known:
        if one != runs:
            return one
    raise ReleaseError(f"nothing to go back to: {name} has run well from no other release here", _choice(known))


def rollback(
    root: HostRoot, name: str, release: str, manager: ServiceManager, *, dry_run: bool = False
) -> tuple[Plan, list[str]]:
    """Run the service from this release with the config that it ran well with; returns what was done, files changed.

    Raises `ReleaseError`; what runs well already is left alone.
    """
    try:
        pair = json.loads(_path(root, release, name).read_text(encoding="utf-8"))
        service, files = _service(pair["service"]), dict(pair["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(
            f"no good config of {name} in release {release}: {error}", _choice(good(root, name))
        ) from error
    files = {path: with_tokens_of_now(text, Path(path)) for path, text in files.items()}
    changed = [path for path, text in files.items() if not Path(path).is_file() or _text(Path(path)) != text]
    force = [name] if changed else []
    if dry_run:
        return plan(root, release, [service], manager, force), changed
    for path in changed:
        _write(Path(path), files[path])
    return activate(root, release, [service], manager, force), changed


def with_tokens_of_now(text: str, live: Path) -> str:
    """The config with the hashes of node tokens that the live file has: nodes keep the tokens they have now.

    A token that was replaced since is no longer on its node, and going back to its hash would turn the node away.
    """
    now: dict[str, str] = dict(_TOKEN.findall(_text(live))) if live.is_file() else {}

    def current(found: re.Match[str]) -> str:
        name, old = found.groups()
        return found[0].replace(old, now.get(name, old))

    return _TOKEN.sub(current, text)


def _choice(known: Sequence[str]) -> str:
    return f"good here: {', '.join(known)}" if known else "deploy a good release: make dev"


def _path(root: HostRoot, release: str, name: str) -> Path:
    return root.release(release) / PAIRS / f"{name}.json"


def _service(data: Any) -> Service:  # noqa: ANN401 - any JSON
    if not isinstance(data, dict):
        raise ReleaseError(f"not a service: {data!r}")
    return Service.load(data)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _write(path: Path, text: str) -> None:
    """Whole or not at all; a file that is there keeps its permissions, a new one is the owner's alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.is_file() else 0o600
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    fresh.chmod(mode)
    fresh.replace(path)
