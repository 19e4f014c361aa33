"""`dist/<release>/manifest.json`: what a release is made of, with the hash of each file."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.targets import Target

NAME = "manifest.json"
_AGAIN = "delete its folder: the next deploy builds it again"


@dataclass(frozen=True)
class Manifest:
    """One built release. `files` maps paths relative to the dist folder to their sha256.

    `targets` are the names of those that it has a lock and a wheelhouse for; `zips` maps a platform to the sha256 of
    its `iop-node-<platform>.zip`, which holds a manifest of its own with this platform's files only.
    """

    release_id: str
    commit: str
    version: str
    wheel: str
    targets: tuple[str, ...]
    files: dict[str, str]
    zips: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def load(dist: Path) -> Manifest:
        """Read the manifest of a dist folder or zip. Raises `ReleaseError` when it is missing or unreadable."""
        try:
            data = json.loads(_text(dist))
            return Manifest(**{**data, "targets": tuple(data["targets"])})
        except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
            hint = "the file did not arrive whole: copy it here again" if dist.suffix == ".zip" else _AGAIN
            raise ReleaseError(f"no usable {NAME} in {dist}: {error}", hint) from error

    def save(self, folder: Path) -> None:
        """Write the manifest into its dist folder, whole or not at all."""
        fresh = folder / f".{NAME}"
        fresh.write_text(self.text(), encoding="utf-8")
        fresh.replace(folder / NAME)

    def text(self) -> str:
        """As JSON; the same manifest gives the same bytes."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    def verify(self, folder: Path) -> None:
        """Compare every file with its hash. Raises `ReleaseError` naming the first that differs."""
        zips = {zip_name(platform): wanted for platform, wanted in self.zips.items()}
        for name, wanted in {**self.files, **zips}.items():
            _verify(folder / name, wanted)

    def verify_one(self, folder: Path, name: str) -> None:
        """The same for one of `files`."""
        _verify(folder / name, self.files[name])

    def of_target(self, target: Target) -> dict[str, str]:
        """The files that this target needs. Raises `ReleaseError` when the release was not built for it."""
        if target.name not in self.targets:
            has = "; ".join(Target.load(name).words for name in self.targets)
            raise ReleaseError(
                f"release {self.release_id} has nothing for this host ({target.words}); it was built for {has}",
                f"build it with --target {target.platform}:{target.minor}, as a deploy does for each host it finds",
            )
        mine = (self.wheel, target.lock, f"{target.wheelhouse}/")
        return {name: digest for name, digest in self.files.items() if name.startswith(mine)}

    def of_platform(self, platform: str) -> Manifest:
        """The manifest in the zip of one platform."""
        targets = tuple(name for name in self.targets if Target.load(name).platform == platform)
        files: dict[str, str] = {}
        for name in targets:
            files.update(self.of_target(Target.load(name)))
        return Manifest(self.release_id, self.commit, self.version, self.wheel, targets, files)


def zip_name(platform: str) -> str:
    """The zip of one platform in a dist folder."""
    return f"iop-node-{platform}.zip"


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _verify(path: Path, wanted: str) -> None:
    if not path.is_file():
        raise ReleaseError(f"{path} is missing", _AGAIN)
    if sha256(path) != wanted:
        raise ReleaseError(f"{path} is not the file that was built", _AGAIN)


def _text(dist: Path) -> str:
    if dist.suffix != ".zip":
        return (dist / NAME).read_text(encoding="utf-8")
    with zipfile.ZipFile(dist) as archive:
        return archive.read(NAME).decode("utf-8")
