"""The fake engine and the load tool, compiled from `src/` into build/bench/bin."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "build" / "bench"
SOURCES = Path(__file__).with_name("src")


class NoTool(Exception):
    """Something the benchmark itself needs is not on this machine; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the two programs are."""

    engine: Path
    load: Path


def built(folder: Path = BENCH / "bin") -> Tools:
    """Compile what is older than its source; returns the programs. Raises NoTool."""
    folder.mkdir(parents=True, exist_ok=True)
    return Tools(_compiled("engine", folder), _compiled("load", folder))


def _compiled(name: str, folder: Path) -> Path:
    """`src/NAME*.c` as one program, `src/NAME.h` being its header."""
    program, sources = folder / name, sorted(SOURCES.glob(f"{name}*.[ch]"))
    if program.exists() and program.stat().st_mtime > max(one.stat().st_mtime for one in sources):
        return program
    if (gcc := shutil.which("gcc") or shutil.which("cc")) is None:
        raise NoTool(
            "gcc is missing, and the fake engine and the load tool are C: sudo apt-get install -y gcc libc6-dev"
        )
    units = [str(one) for one in sources if one.suffix == ".c"]
    done = subprocess.run(
        [gcc, "-O2", "-Wall", "-o", f"{program}.new", *units], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise NoTool(f"{name} does not compile (Linux with epoll is needed):\n{done.stderr}")
    Path(f"{program}.new").replace(program)
    return program
