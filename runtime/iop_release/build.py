"""From a clean checkout to `dist/<release>/`: wheel, locks, wheelhouses, a zip per platform. Runs on the builder."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from iop_release import bundle
from iop_release.errors import ReleaseError
from iop_release.manifest import NAME, Manifest, sha256, zip_name
from iop_release.run import git, run
from iop_release.targets import Target
from iop_release.wheels import LOCKS, lock_of, wheelhouse


@dataclass(frozen=True)
class Wanted:
    """What a release is built for, beside the builder itself.

    Each platform named here gets a zip. A target of `also` that cannot be had, for want of a network, is left out.
    """

    targets: tuple[Target, ...] = ()
    also: tuple[Target, ...] = ()

    @property
    def platforms(self) -> set[str]:
        """Those that get a zip."""
        return {target.platform for target in (*self.targets, *self.also)}

    def missing(self, manifest: Manifest) -> tuple[list[Target], list[Target]]:
        """The needed targets and the others that this release lacks, or lacks in a zip."""
        return _lacking(manifest, self.targets), _lacking(manifest, self.also)


NOTHING_MORE = Wanted()


def build(source: Path, dist: Path, cache: Path, wanted: Wanted = NOTHING_MORE) -> tuple[Manifest, bool, list[str]]:
    """Build the checkout's commit for the builder and what is wanted, where that is not done yet.

    Returns the manifest, whether anything was built, and what was left out, in words. A target that a built release
    lacks is added to it: its id tells code and locks, not what it was built for. Raises `ReleaseError`.
    """
    commit = git(source, "rev-parse", "HEAD")
    done = find(dist, commit)
    needed, more = wanted.missing(done) if done else (_unique([Target.here(), *wanted.targets]), list(wanted.also))
    houses = {target: wheelhouse(source, target, cache) for target in needed}
    notes = []
    for target in more:
        try:
            houses.setdefault(target, wheelhouse(source, target, cache, patient=False))
        except ReleaseError as error:
            why = str(error).strip().splitlines()[-1].strip()
            notes.append(f"no artefact for {target.words}: its wheels could not be fetched ({why})")
    if done is not None and not houses:
        return done, False, notes
    folder = dist / done.release_id if done else _fresh(dist / ".building")
    bare = done or _bare(source, folder, commit)
    manifest = _complete(bare, folder, source, houses, wanted.platforms)
    if done is None:
        shutil.rmtree(dist / manifest.release_id, ignore_errors=True)
        folder.replace(dist / manifest.release_id)
    return manifest, True, notes


def find(dist: Path, commit: str) -> Manifest | None:
    """The release already built from this commit on such a builder, None when there is none or it is broken."""
    if not dist.is_dir():
        return None
    for folder in sorted(dist.iterdir()):
        try:
            manifest = Manifest.load(folder)
            manifest.verify(folder)
        except ReleaseError:
            continue
        if manifest.commit == commit and Target.here().name in manifest.targets:
            return manifest
    return None


def foresee(source: Path, dist: Path, wanted: Wanted = NOTHING_MORE) -> dict[str, object]:
    """What `build` would do with this checkout: the release it finds, or a name for the one to be built."""
    done = find(dist, git(source, "rev-parse", "HEAD"))
    if done is not None:
        return {"changed": any(wanted.missing(done)), "release_id": done.release_id}
    return {"changed": True, "release_id": f"{_describe(source)}-unbuilt"}


def _lacking(manifest: Manifest, targets: Iterable[Target]) -> list[Target]:
    has = manifest.targets
    return [one for one in _unique(targets) if one.name not in has or one.platform not in manifest.zips]


def _unique(targets: Iterable[Target]) -> list[Target]:
    return list(dict.fromkeys(targets))


def _describe(source: Path) -> str:
    return git(source, "describe", "--always", "--tags")


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _bare(source: Path, working: Path, commit: str) -> Manifest:
    """The release with its wheel alone. The id is that of the code and of all locks, whatever it is built for."""
    wheel = _wheel(source, working)
    code = hashlib.sha256(sha256(wheel).encode())
    for lock in sorted((source / LOCKS).glob("*.txt")):
        code.update(f"{lock.name}{sha256(lock)}".encode())
    release_id = f"{_describe(source)}-{code.hexdigest()[:8]}"
    version = wheel.name.split("-")[1]
    return Manifest(release_id, commit, version, wheel.name, (), {wheel.name: sha256(wheel)})


def _complete(
    manifest: Manifest, folder: Path, source: Path, houses: dict[Target, Path], platforms: Iterable[str]
) -> Manifest:
    """Add these wheelhouses and make the zips that are missing or have grown; the manifest is written last."""
    files = dict(manifest.files)
    for target, house in houses.items():
        shutil.copyfile(lock_of(source, target), folder / target.lock)
        files[target.lock] = sha256(folder / target.lock)
        shutil.rmtree(folder / target.wheelhouse, ignore_errors=True)
        (folder / target.wheelhouse).mkdir()
        for wheel in sorted(house.iterdir()):
            name = f"{target.wheelhouse}/{wheel.name}"
            files[name] = _linked(wheel, folder / name)
    names = tuple(sorted({*manifest.targets, *(target.name for target in houses)}))
    whole = replace(manifest, targets=names, files=dict(sorted(files.items())))
    grown = {target.platform for target in houses} & {*platforms, *manifest.zips}
    ready = {Target.load(name).platform for name in names}
    zips = dict(manifest.zips)
    for platform in sorted((grown | (set(platforms) - manifest.zips.keys())) & ready):
        zips[platform] = _zip(whole.of_platform(platform), folder, platform)
    whole = replace(whole, zips=zips)
    whole.save(folder)
    return whole


def _zip(manifest: Manifest, folder: Path, platform: str) -> str:
    path = folder / zip_name(platform)
    content: dict[str, Path | bytes] = {name: folder / name for name in manifest.files}
    bundle.pack(path, {**content, NAME: manifest.text().encode()})
    return sha256(path)


def _linked(source: Path, target: Path) -> str:
    """A second name for the same bytes where the file system can, else a copy; returns the sha256."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return sha256(target)


def _wheel(source: Path, target: Path) -> Path:
    """Build the wheel; the same commit gives the same bytes."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": git(source, "log", "-1", "--format=%ct")}
    try:
        run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)], folder=source, env=env)
    except ReleaseError as error:
        what = f"the commit cannot be built from {source / 'pyproject.toml'}, and nothing was changed"
        raise ReleaseError(f"{what}: {error}", "next: correct it, commit, and run the deploy again") from error
    return next(target.glob("*.whl"))
