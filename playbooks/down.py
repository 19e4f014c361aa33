"""`make down` and `make clean`: stop environments of this checkout, with or without Ansible.

`down.py ENV` stops one, `down.py --all` every one that was deployed; `--purge` also removes build/.
With Ansible at hand it runs playbooks/uninstall.yml; else it does the same by the release helper alone, which suffices
for this machine but not for real hosts.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = "-runtime"
LAB = ROOT / "build" / "lab"  # there while the hosts of a lab are on


def main(arguments: list[str]) -> int:
    """Stop, purge; 0 done, 1 something would not stop, 2 no such environment."""
    purge, everything = "--purge" in arguments, "--all" in arguments
    names = _deployed() if everything else [one for one in arguments if not one.startswith("--")]
    unknown = [name for name in names if name not in _deployed() and not (ROOT / "inventory" / name).is_dir()]
    if unknown:
        known = sorted(folder.name for folder in (ROOT / "inventory").iterdir() if folder.is_dir())
        print(f"no environment {unknown[0]!r} (known: {', '.join(known)})", file=sys.stderr)  # noqa: T201
        return 2
    names = [name for name in names if name in _deployed() or _is_real(name)]
    if purge and everything and LAB.is_dir():
        if subprocess.run([str(ROOT / "tests" / "lab" / "lab.sh"), "down"], check=False).returncode != 0:  # noqa: S603
            return 1
        names = [name for name in names if name != "lab"]
    if "lab" in names and not LAB.is_dir():
        print("lab: its hosts are off, and nothing runs on them")  # noqa: T201
        names.remove("lab")
    failed = [name for name in names if _stop(name, purge=purge) != 0]
    for name in failed:
        print(f"{name}: not everything was stopped, see above; {_next(name)}", file=sys.stderr)  # noqa: T201
    if failed:
        return 1
    if purge:
        shutil.rmtree(ROOT / "build", ignore_errors=True)
    print(f"stopped: {', '.join(names) or 'nothing was running'}{'; build/ removed' if purge else ''}")  # noqa: T201
    return 0


def _next(name: str) -> str:
    if not _is_real(name):
        return "nothing was removed. next: run it again"
    folder = f"build/{name}{SUFFIX}"
    return f"{folder} was kept. next: once every host can be reached run it again, or give up on them: rm -rf {folder}"


def _is_real(name: str) -> bool:
    """Whether the environment has hosts with an address. Read as text: without `.venv` there is no YAML."""
    files = (ROOT / "inventory" / name / "host_vars").glob("*/*.yml")
    return any(line.startswith("address:") for file in files for line in file.read_text("utf-8").splitlines())


def _deployed() -> list[str]:
    return sorted(folder.name[: -len(SUFFIX)] for folder in (ROOT / "build").glob(f"*{SUFFIX}"))


def _stop(name: str, *, purge: bool) -> int:
    inventory = ROOT / "inventory" / name
    if importlib.util.find_spec("ansible") is not None and inventory.is_dir():
        command = [sys.executable, str(ROOT / "playbooks" / "launch.py"), "uninstall", "-i", str(inventory)]
        # make clean is about this machine: what lies on real hosts is removed by uninstall.yml -e purge=true alone
        command += ["-e", f"purge={'here' if purge else 'false'}"]
        return subprocess.run(command, check=False).returncode  # noqa: S603 - our own launcher
    if _is_real(name):
        print(f"{name} has real hosts, which only Ansible reaches. next: make env", file=sys.stderr)  # noqa: T201
        return 1
    home = ROOT / "build" / f"{name}{SUFFIX}"
    helper = [sys.executable, "-m", "iop_release", "down", "--home", str(home)]
    return subprocess.run(helper, cwd=ROOT / "runtime", check=False).returncode  # noqa: S603 - our own helper


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
