"""A built release on a host: verified, in its own folder, with a venv made offline at its final path."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iop_release import bundle, layout
from iop_release.errors import ReleaseError
from iop_release.layout import COMPLETE, HostRoot
from iop_release.manifest import NAME, Manifest
from iop_release.run import run
from iop_release.targets import Target

OLDEST_PYTHON = (3, 11)  # what the runtime needs; this package itself runs from 3.9 on, to say so
_GROWTH = 5  # measured: a venv, compiled, takes 4.5 times the size of its wheels


def stage(root: HostRoot, dist: Path, *, python: str = sys.executable, group: str | None = None) -> bool:
    """Stage the release that lies in `dist`, a folder or the zip of a platform; False when it is there already.

    The mark of completeness is written last, so an interrupted stage is done again from the start. A zip below the
    host's `incoming/` is removed when it has served. With `group`, members of it may read the release.
    """
    manifest = Manifest.load(dist)
    if root.is_staged(manifest.release_id):
        return False
    wanted = manifest.of_target(Target.here())
    root.prepare(group)
    folder = root.release(manifest.release_id)
    shutil.rmtree(folder, ignore_errors=True)
    with _room(root.releases, dist, wanted), _whole_or_gone(folder):
        house = _unpacked(root, manifest, dist, wanted)
        folder.mkdir(mode=0o700)
        venv = folder / "venv"
        _clean_run([python, "-m", "venv", "--without-pip", str(venv)])
        _install(venv, house, manifest)
        (folder / NAME).write_text(manifest.text(), encoding="utf-8")
        if group is not None:
            layout.share(folder, group)
        (folder / COMPLETE).write_text("", encoding="utf-8")
    if house != dist:
        shutil.rmtree(house, ignore_errors=True)
    if root.incoming in dist.absolute().parents:
        dist.unlink()
    return True


def is_staged(root: HostRoot, dist: Path, release: str | None) -> bool:
    """Whether `stage` would find nothing to do; `release` is the id to take while `dist` is not there yet."""
    if not dist.exists():
        return root.is_staged(release or dist.name)
    return root.is_staged(Manifest.load(dist).release_id)


def _unpacked(root: HostRoot, manifest: Manifest, dist: Path, wanted: dict[str, str]) -> Path:
    """The folder with the verified files of this host."""
    if dist.suffix != ".zip":
        for name in wanted:
            manifest.verify_one(dist, name)
        return dist
    folder = root.incoming / f"{manifest.release_id}.unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    bundle.unpack(dist, wanted, folder)
    return folder


def _install(venv: Path, dist: Path, manifest: Manifest) -> None:
    """Install the locked wheels and our own with the pip of the wheelhouse; no index is asked, no cache written."""
    target = Target.here()
    house = dist / target.wheelhouse
    pip = next(house.glob("pip-*.whl"), None)
    if pip is None:
        raise ReleaseError(f"no pip in {house}", "the lock must name pip")
    program = [str(layout.venv_python(venv)), str(pip / "pip"), "install", "--quiet", "--no-index", "--no-deps"]
    wanted = venv.parent / "wanted.txt"  # one call for all: pip runs from a wheel, so each start compiles it anew
    own = f"{(dist / manifest.wheel).absolute().as_uri()} --hash=sha256:{manifest.files[manifest.wheel]}\n"
    wanted.write_text(own + (dist / target.lock).read_text(encoding="utf-8"), encoding="utf-8")
    _clean_run([*program, "--require-hashes", "--find-links", str(house), "-r", str(wanted)])
    _clean_run([str(layout.venv_python(venv)), "-I", "-c", "import iop, iop_release"])


def _clean_run(command: list[str]) -> None:
    """Run it without the user's pip settings: an index or a constraint there would change what is installed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
    run(command, env={**clean, **_PIP})


@contextmanager
def _room(folder: Path, dist: Path, wanted: dict[str, str]) -> Iterator[None]:
    """Refuse to begin without the space, and tell a disk that fills up meanwhile as what it is."""
    needed = _GROWTH * _size(dist, wanted)
    before = shutil.disk_usage(folder).free
    if before < needed:
        raise ReleaseError(f"{_mib(before)} free in {folder}; this release needs {_mib(needed)}", _SPACE)
    try:
        yield
    except (OSError, ReleaseError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if full or os.strerror(errno.ENOSPC) in str(error):
            free = shutil.disk_usage(folder).free
            text = (
                f"no space left in {folder} while the release was staged: {_mib(free)} free now, {_mib(needed)} needed"
            )
            raise ReleaseError(text, _SPACE) from error
        if isinstance(error, OSError):
            raise ReleaseError(f"the release cannot be staged: {error}") from error
        raise


@contextmanager
def _whole_or_gone(folder: Path) -> Iterator[None]:
    """Leave no half-made release behind."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _size(dist: Path, wanted: dict[str, str]) -> int:
    if dist.suffix == ".zip":
        return bundle.size(dist, wanted)
    return sum((dist / name).stat().st_size for name in wanted if (dist / name).is_file())


def _mib(count: int) -> str:
    return f"{count} bytes ({count >> 20} MiB)"


_SPACE = "free some space there: `iop_release prune` removes old releases"
_PIP = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
