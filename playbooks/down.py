"""`make down` and `make clean`: stop environments of this checkout, with or without Ansible.

`down.py ENV` stops one, `down.py --all` every one that was deployed; `--purge` also removes build/.
With Ansible at hand it runs playbooks/uninstall.yml; else it does the same by the release helper alone.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = "-runtime"


def main(arguments: list[str]) -> int:
    """Stop, purge; 0 done, 1 something would not stop, 2 no such environment."""
    purge, everything = "--purge" in arguments, "--all" in arguments
    names = _deployed() if everything else [one for one in arguments if not one.startswith("--")]
    unknown = [name for name in names if name not in _deployed() and not (ROOT / "inventory" / name).is_dir()]
    if unknown:
        known = sorted(folder.name for folder in (ROOT / "inventory").iterdir() if folder.is_dir())
        print(f"no environment {unknown[0]!r} (known: {', '.join(known)})", file=sys.stderr)  # noqa: T201
        return 2
    names = [name for name in names if name in _deployed()]
    codes = [_stop(name, purge=purge) for name in names]
    if any(codes):
        return 1
    if purge:
        shutil.rmtree(ROOT / "build", ignore_errors=True)
    print(f"stopped: {', '.join(names) or 'nothing was running'}{'; build/ removed' if purge else ''}")  # noqa: T201
    return 0


def _deployed() -> list[str]:
    return sorted(folder.name[: -len(SUFFIX)] for folder in (ROOT / "build").glob(f"*{SUFFIX}"))


def _stop(name: str, *, purge: bool) -> int:
    inventory = ROOT / "inventory" / name
    if importlib.util.find_spec("ansible") is not None and inventory.is_dir():
        command = [sys.executable, str(ROOT / "playbooks" / "launch.py"), "uninstall", "-i", str(inventory)]
        command += ["-e", f"purge={str(purge).lower()}"]
        return subprocess.run(command, check=False).returncode  # noqa: S603 - our own launcher
    home = ROOT / "build" / f"{name}{SUFFIX}"
    helper = [sys.executable, "-m", "iop_release", "down", "--home", str(home)]
    return subprocess.run(helper, cwd=ROOT / "runtime", check=False).returncode  # noqa: S603 - our own helper


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
