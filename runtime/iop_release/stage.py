"""A built release on a host: verified, in its own folder, with a venv made offline at its final path."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.layout import COMPLETE, HostRoot
from iop_release.manifest import NAME, Manifest
from iop_release.run import run

OLDEST_PYTHON = (3, 11)  # what the runtime needs; this package itself runs from 3.9 on, to say so


def stage(root: HostRoot, dist: Path, python: str = sys.executable) -> bool:
    """Stage the release that lies in `dist`; False when it is there already.

    The mark of completeness is written last, so an interrupted stage is done again from the start.
    """
    manifest = Manifest.load(dist)
    if root.is_staged(manifest.release_id):
        return False
    manifest.verify(dist)
    root.prepare()
    folder = root.release(manifest.release_id)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    venv = folder / "venv"
    _clean_run([python, "-m", "venv", "--without-pip", str(venv)])
    _install(venv, dist, manifest)
    shutil.copy2(dist / NAME, folder / NAME)
    (folder / COMPLETE).write_text("", encoding="utf-8")
    return True


def _install(venv: Path, dist: Path, manifest: Manifest) -> None:
    """Install the locked wheels and our own with the pip of the wheelhouse; no index is asked, no cache written."""
    house = dist / manifest.wheelhouse
    pip = next(house.glob("pip-*.whl"), None)
    if pip is None:
        raise ReleaseError(f"no pip in {house}", "the lock must name pip")
    program = [str(venv / "bin" / "python"), str(pip / "pip"), "install", "--quiet", "--no-index", "--no-deps"]
    wanted = venv.parent / "wanted.txt"  # one call for all: pip runs from a wheel, so each start compiles it anew
    own = f"{(dist / manifest.wheel).as_uri()} --hash=sha256:{manifest.files[manifest.wheel]}\n"
    wanted.write_text(own + (dist / manifest.lock).read_text(encoding="utf-8"), encoding="utf-8")
    _clean_run([*program, "--require-hashes", "--find-links", str(house), "-r", str(wanted)])
    _clean_run([str(venv / "bin" / "python"), "-I", "-c", "import iop, iop_release"])


def _clean_run(command: list[str]) -> None:
    """Run it without the user's pip settings: an index or a constraint there would change what is installed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
    run(command, env={**clean, **_PIP})


_PIP = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
