"""The wheelhouse of a target: every locked wheel, downloaded once per lock. The only step that uses the network."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.manifest import sha256
from iop_release.run import run
from iop_release.targets import Target

LOCKS = Path("runtime", "locks")  # in a checkout
_WHEEL = re.compile(r"#\s*(\S+\.whl)\s*$", re.MULTILINE)


def lock_of(source: Path, target: Target) -> Path:
    """The lock of a target in a checkout. Raises `ReleaseError` when there is none."""
    lock = source / LOCKS / f"{target.name}.txt"
    if not lock.is_file():
        raise ReleaseError(f"no lock for {target.words}: {lock} is missing", "use another Python, or: make locks")
    return lock


def wheelhouse(source: Path, target: Target, cache: Path, *, patient: bool = True) -> Path:
    """The folder with exactly the locked wheels. Raises `ReleaseError`, soon so unless `patient`."""
    lock = lock_of(source, target).absolute()
    house = cache.absolute() / sha256(lock)[:12] / target.wheelhouse
    if house.is_dir():
        return house
    fresh = house.with_name(f".{house.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    haste = [] if patient else ["--retries=1", "--timeout=10"]
    options = ["--quiet", "--disable-pip-version-check", *haste, *target.pip_options()]
    run([sys.executable, "-m", "pip", "download", *options, "-d", str(fresh), "-r", str(lock)], folder=lock.parent)
    expected = set(_WHEEL.findall(lock.read_text(encoding="utf-8")))
    found = {path.name for path in fresh.iterdir()}
    if found != expected:
        odd = ", ".join(sorted(found ^ expected))
        raise ReleaseError(f"the wheels of {target.words} are not those of {lock.name}: {odd}", "make locks")
    fresh.replace(house)
    return house
