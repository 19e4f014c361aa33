"""What a lab does to the machine it runs on: it installs what is missing, and leaves nothing."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import HOSTS, LAB, ROOT, Lab

HERE = ROOT / "tests" / "lab"
APT = """#!/bin/sh
echo "$@" >>"$LOG"
[ "$1" = install ] && ln -s /bin/true "$BIN/$TOOL"
exit 0
"""


def _tools() -> dict[str, str]:
    text = (HERE / "base.sh").read_text(encoding="utf-8")
    pairs = text.split('TOOLS="')[1].split('"')[0].split()
    return dict(pair.split(":") for pair in pairs)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A search path with what every Debian has, and stand-ins for all that the lab needs beyond it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for command in ("bash", "sh", "dirname", "sha256sum", "cut", "date", "ln"):
        (folder / command).symlink_to(str(shutil.which(command)))
    for command in _tools():
        (folder / command).symlink_to("/bin/true")
    return folder


@pytest.mark.parametrize(("tool", "package"), _tools().items())
def test_a_missing_tool_is_installed(bare: Path, tmp_path: Path, tool: str, package: str) -> None:
    """Each command that the lab uses comes from its Debian package when it is not there, and no other package does."""
    (bare / tool).unlink()
    apt = bare / "apt-get"
    apt.write_text(APT, encoding="ascii")
    apt.chmod(0o755)
    env = {"PATH": str(bare), "LOG": str(tmp_path / "log"), "BIN": str(bare), "TOOL": tool}

    done = subprocess.run(["/bin/bash", LAB, "tools"], env=env, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    update, install = (tmp_path / "log").read_text(encoding="ascii").splitlines()
    assert update.startswith("update")
    assert install.split()[-2:] == ["--no-install-recommends", package]
    assert f"installing {package} (for {tool})" in done.stderr


def test_without_apt_the_missing_tool_is_named(bare: Path) -> None:
    """Exit code 3, and what it lacks."""
    (bare / "nft").unlink()
    env = {"PATH": str(bare)}

    done = subprocess.run(["/bin/bash", LAB, "tools"], env=env, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 3
    assert "it lacks nft, and there is no apt-get" in done.stderr


class Twin:
    """A second checkout with a lab of its own, on the same machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.script = root / "tests" / "lab" / "lab.sh"
        shutil.copytree(HERE, self.script.parent, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, *words: str) -> str:
        """A command of its lab.sh; what it printed."""
        done = subprocess.run([self.script, *words], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def prefix(self) -> str:
        """What its names on this machine begin with."""
        listed = Path("/var/tmp/iop-lab").glob("*/checkout")
        return next(one.parent.name for one in listed if one.read_text(encoding="utf-8").strip() == str(self.root))


def _traces(prefix: str) -> list[str]:
    """Everything on this machine that bears the prefix."""
    places = ("/run/netns", "/run/iop-lab", "/var/tmp/iop-lab", "/sys/fs/cgroup", "/sys/fs/cgroup/unified")
    found = [str(path) for place in places for path in Path(place).glob(f"{prefix}*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes().decode("utf-8", errors="replace")
            mounts = (process / "mounts").read_text(encoding="utf-8")
        except OSError:  # it has ended meanwhile
            continue
        found += [f"process {process.name}"] if prefix in text or prefix in mounts else []
    loops = subprocess.run(
        ["losetup", "--list", "--noheadings", "-O", "BACK-FILE"], capture_output=True, text=True, check=True
    )
    return found + [line for line in loops.stdout.splitlines() if prefix in line]


@pytest.fixture
def twin(lab: Lab, tmp_path: Path) -> Iterator[Twin]:
    """It is up beside the lab of this checkout, and gone afterwards, whatever happened to it."""
    checkout = Twin(tmp_path / "a checkout")
    checkout.run("up")
    yield checkout
    checkout.run("down")


def test_two_labs_at_once_and_nothing_left(lab: Lab, twin: Twin) -> None:
    """The same names and addresses, two worlds; one is taken down without the other, and leaves no trace."""
    prefix = twin.prefix
    assert lab.ssh("gx10", "echo ours >~/whose").code == 0
    assert twin.run("ssh", "gx10", "ls ~") == ""
    assert _traces(prefix) != []
    twin.run("crash", "mac")
    twin.run("fill", "gx10")
    twin.run("freeze", "onexplayer")
    twin.run("down")

    assert _traces(prefix) == []
    assert not (twin.root / "build" / "lab").exists()
    assert lab.status() == dict.fromkeys(HOSTS, "running")
    assert lab.ssh("gx10", "cat ~/whose").out == "ours\n"


def test_up_clears_what_a_killed_run_left(lab: Lab, twin: Twin) -> None:
    """Killed in the middle: hosts half dead, one frozen. The next `up` is a fresh lab."""
    twin.run("ssh", "gx10", "touch ~/old")
    twin.run("freeze", "onexplayer")
    pid = int((Path("/var/tmp/iop-lab") / twin.prefix / "mac" / "pid").read_text(encoding="ascii"))
    os.kill(pid, signal.SIGKILL)
    twin.run("up")

    assert twin.run("ssh", "gx10", "ls ~") == ""
    assert twin.run("status").count("running") == 3


def test_the_lab_of_a_checkout_that_is_gone(lab: Lab, twin: Twin, tmp_path: Path) -> None:
    """The next `up` of any checkout takes it down."""
    prefix = twin.prefix
    kept = tmp_path / "another checkout"
    twin.root.rename(kept)
    other = Twin.__new__(Twin)
    other.root, other.script = kept, kept / "tests" / "lab" / "lab.sh"
    other.run("up")
    try:
        assert _traces(prefix) == []
    finally:
        other.run("down")
        kept.rename(twin.root)
