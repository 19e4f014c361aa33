"""Compile `runtime/locks/<platform>-py<minor>.txt` anew: what is installed on a host, wheel by wheel. Uses the network.

One line per wheel, `name==version --hash=sha256:…  # file name`: the one file that such a host installs. So any machine
can download a wheelhouse (no marker is left to evaluate, no choice to make), and a platform or Python for which a
package has no wheel fails here, not on a host. No package registry is named in the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from iop_release.targets import MINORS, WHEEL_TAGS, Target

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER.parents[1]
#: uv's name of each platform
SYSTEMS = {
    "linux-arm64": "aarch64-manylinux_2_28",
    "linux-x86_64": "x86_64-manylinux_2_28",
    "macos-arm64": "aarch64-apple-darwin",
    "windows-amd64": "x86_64-pc-windows-msvc",
}


def lock(target: Target) -> str:
    """The lock of one target as text."""
    with tempfile.TemporaryDirectory() as scratch:
        pins, report = Path(scratch, "pins.txt"), Path(scratch, "report.json")
        _run("uv", "pip", "compile", "-q", "pyproject.toml", str(FOLDER / "installer.in"), "-o", str(pins),
             "--python-platform", SYSTEMS[target.platform], "--python-version", target.minor, "--generate-hashes",
             "--no-emit-index-url", "--no-emit-find-links", "--no-header")  # fmt: skip
        _run("pip", "install", "-q", "--dry-run", "--ignore-installed", "--target", scratch,
             "--report", str(report), *target.pip_options(), "-r", str(pins))  # fmt: skip
        wheels = json.loads(report.read_text(encoding="utf-8"))["install"]
    return "".join(sorted((_line(one) for one in wheels), key=str.lower))


def _line(wheel: dict[str, dict[str, dict[str, dict[str, str]]]]) -> str:
    info = wheel["download_info"]
    name = str(info["url"]).rpartition("/")[2]
    digest = info["archive_info"]["hashes"]["sha256"]
    return f"{wheel['metadata']['name']}=={wheel['metadata']['version']} --hash=sha256:{digest}  # {name}\n"


def _run(*command: str) -> None:
    subprocess.run([sys.executable, "-m", *command], cwd=SOURCE, check=True)


def main() -> None:
    """Write every lock."""
    for target in (Target(platform, minor) for platform in WHEEL_TAGS for minor in MINORS):
        text = lock(target)
        (FOLDER / f"{target.name}.txt").write_text(text, encoding="utf-8")
        print(f"{target.words}: {len(text.splitlines())} wheels")


if __name__ == "__main__":
    main()
