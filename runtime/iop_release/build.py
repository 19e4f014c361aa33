"""From a clean checkout to `dist/<release>/`: wheel, wheelhouse, manifest. Runs on the builder only."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.manifest import Manifest, sha256
from iop_release.run import git, run

_SYSTEMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
_MACHINES = {"x86_64": "x86_64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def platform_name() -> str:
    """The name of this machine's lock: `linux-x86_64`, `linux-arm64`, `macos-arm64`, `windows-amd64`."""
    system = _SYSTEMS.get(platform.system(), platform.system().lower())
    return f"{system}-{_MACHINES.get(platform.machine(), platform.machine().lower())}"


def python_tag() -> str:
    """The Python that the wheelhouse is for: `py3.11`."""
    return f"py{sys.version_info[0]}.{sys.version_info[1]}"


def build(source: Path, dist: Path, cache: Path) -> tuple[Manifest, bool]:
    """Build the checkout's commit, unless it is built; returns the manifest and whether anything was built."""
    commit = git(source, "rev-parse", "HEAD")
    lock = _lock(source)
    done = find(dist, commit)
    if done is not None:
        return done, False
    working = dist / ".building"
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir(parents=True)
    wheel = _wheel(source, working)
    house = _wheelhouse(lock, cache)
    shutil.copytree(house, working / house.name, copy_function=_link)
    shutil.copy2(lock, working / "lock.txt")
    manifest = _manifest(source, working, commit, wheel, house.name)
    manifest.save(working)
    target = dist / manifest.release_id
    shutil.rmtree(target, ignore_errors=True)
    working.replace(target)
    return manifest, True


def find(dist: Path, commit: str) -> Manifest | None:
    """The release already built from this commit for this Python, None when there is none or it is broken."""
    if not dist.is_dir():
        return None
    for folder in sorted(dist.iterdir()):
        try:
            manifest = Manifest.load(folder)
            manifest.verify(folder)
        except ReleaseError:
            continue
        if manifest.commit == commit and manifest.wheelhouse == _house_name():
            return manifest
    return None


def foresee(source: Path, dist: Path) -> dict[str, object]:
    """What `build` would do with this checkout: the release it finds, or a name for the one to be built."""
    done = find(dist, git(source, "rev-parse", "HEAD"))
    if done is not None:
        return {"changed": False, "release_id": done.release_id}
    return {"changed": True, "release_id": f"{_describe(source)}-unbuilt"}


def _describe(source: Path) -> str:
    return git(source, "describe", "--always", "--tags")


def _house_name() -> str:
    return f"wheelhouse-{platform_name()}-{python_tag()}"


def _manifest(source: Path, working: Path, commit: str, wheel: Path, house: str) -> Manifest:
    files = {str(path.relative_to(working)): sha256(path) for path in sorted(working.rglob("*")) if path.is_file()}
    code = hashlib.sha256((files[wheel.name] + files["lock.txt"]).encode()).hexdigest()[:8]
    release_id = f"{_describe(source)}-{code}"
    return Manifest(
        release_id, commit, wheel.name.split("-")[1], wheel.name, "lock.txt", files["lock.txt"], house, files
    )


def _lock(source: Path) -> Path:
    lock = source / "runtime" / "locks" / f"{platform_name()}.txt"
    if not lock.is_file():
        raise ReleaseError(f"no lock for this machine: {lock} is missing", "make locks")
    return lock


def _wheel(source: Path, target: Path) -> Path:
    """Build the wheel; the same commit gives the same bytes."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": git(source, "log", "-1", "--format=%ct")}
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)], folder=source, env=env)
    return next(target.glob("*.whl"))


def _wheelhouse(lock: Path, cache: Path) -> Path:
    """All locked wheels for this platform and Python, downloaded once per lock. The only step that uses the network."""
    house = cache / sha256(lock)[:12] / _house_name()
    if house.is_dir():
        return house
    fresh = house.with_name(f".{house.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    options = ["--quiet", "--only-binary", ":all:", "--no-deps", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(fresh), "-r", str(lock)]
    run(command, folder=lock.parent)
    fresh.replace(house)
    return house


def _link(source: str, target: str) -> str:
    """A second name for the same bytes where the file system can, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        return str(shutil.copy2(source, target))
    return target
