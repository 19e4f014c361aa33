"""Prometheus' own checker, `promtool`: taken out of Debian's package, of which nothing is installed or started.

`python -m tests.fakes.promtool FOLDER` puts it there (`make promtool-here`). Exit codes: 0 it is there; 3 no such
package for this system; 4 the package cannot be fetched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: where `make promtool-here` puts it
FOLDER = ROOT / "build" / "promtool"
#: seconds for one step: the package is 20 MB
PATIENCE = 300


def find() -> str | None:
    """Return the checker of this machine, None when there is none."""
    own = FOLDER / "promtool"
    return str(own) if own.exists() else shutil.which("promtool")


def fetch(folder: Path) -> int:
    """Put the checker into `folder` and return the exit code."""
    if shutil.which("promtool") or (folder / "promtool").exists():
        return 0
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        sys.stderr.write("promtool comes with Prometheus: put it into PATH (there is no apt-get here)\n")
        return 3
    with tempfile.TemporaryDirectory() as scratch:
        if not _download(scratch):
            sys.stderr.write("promtool: apt-get cannot download the package prometheus\n")
            return 4
        package = next(Path(scratch).glob("prometheus_*.deb"))
        _run("dpkg-deb", "-x", str(package), f"{scratch}/unpacked", cwd=scratch)
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".promtool.{os.getpid()}"
        shutil.copy2(Path(scratch, "unpacked/usr/bin/promtool"), fresh)
        fresh.replace(folder / "promtool")
    return 0


def _download(folder: str) -> bool:
    """Download the package; a new machine must be told first what there is, which only root may do."""
    if _run("apt-get", "download", "-qq", "prometheus", cwd=folder):
        return True
    return _run("apt-get", "update", "-qq", cwd=folder) and _run("apt-get", "download", "-qq", "prometheus", cwd=folder)


def _run(*command: str, cwd: str) -> bool:
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
    )
    return done.returncode == 0


if __name__ == "__main__":
    raise SystemExit(fetch(Path(sys.argv[1])))
