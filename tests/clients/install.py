"""The official clients from npm, at the versions of package-lock.json, in a folder of their own: made once, then found.

`install.py --into DIR` prints one JSON object: the `node` that runs them, their `modules` folder, and whether anything
`changed`. Downloads go through npm, with the user's own settings; no script of a package runs.

Exit codes: 0 done, 1 failed, 3 node or npm is missing or too old, 4 the registry could not be reached or broke off; the
reason is on stderr.
"""

import argparse
import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("package.json", "package-lock.json")
COMPLETE = ".complete"
#: the oldest major version that all of the clients start on
NODE = 20
FAILED, UNAVAILABLE, UNREACHABLE = 1, 3, 4
#: what npm says when a registry or the way to it is at fault
NETWORK = re.compile(r"\b(?:E5\d\d|E429|EAI_AGAIN|ECONN\w+|ENOTFOUND|ETIMEDOUT|ESOCKETTIMEDOUT|ERR_SOCKET_TIMEOUT)\b")
HINT = "install it (Debian: sudo apt-get install -y nodejs npm)"


class Failed(Exception):
    """They cannot be installed; `code` is the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


def main() -> int:
    """Install what is missing and print where everything is."""
    parser = argparse.ArgumentParser(prog="install.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where it all lies")
    try:
        print(json.dumps(install(parser.parse_args().into.absolute())))  # noqa: T201 - the answer
    except Failed as failed:
        print(f"error: {failed}", file=sys.stderr)  # noqa: T201
        return failed.code
    return 0


def install(into: Path) -> dict[str, object]:
    """Do it under a lock, since test processes share the folder. Raises `Failed`."""
    node, npm = _program("node"), _program("npm")
    found = _run([node, "--version"]).strip()
    if int(found.lstrip("v").partition(".")[0]) < NODE:
        raise Failed(f"node {found} is older than v{NODE}: {HINT}", UNAVAILABLE)
    key = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in FILES) + found.encode()).hexdigest()
    into.mkdir(parents=True, exist_ok=True)
    with (into / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = not (into / COMPLETE).exists() or (into / COMPLETE).read_text(encoding="utf-8") != key
        if changed:
            _make(npm, into)
            (into / COMPLETE).write_text(key, encoding="utf-8")  # last: an interrupted run is done again
    return {"changed": changed, "node": node, "modules": str(into / "node_modules")}


def _make(npm: str, into: Path) -> None:
    (into / COMPLETE).unlink(missing_ok=True)
    for name in FILES:
        shutil.copyfile(HERE / name, into / name)
    print("installing the clients of tests/clients/package.json (670 MB)", file=sys.stderr, flush=True)  # noqa: T201
    _run([npm, "ci", "--prefix", str(into), "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"])


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Failed(f"{name} is missing: {HINT}", UNAVAILABLE)
    return found


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = done.stdout + done.stderr
        code = UNREACHABLE if NETWORK.search(told) else FAILED
        raise Failed(f"{' '.join(command[:2])} failed:\n{told[-2000:]}", code)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
