"""A node's process is held or killed only where that is allowed, and is never left standing still."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop.config.inventory import Inventory
from iop.ops.shell import Shell
from smoke.grip import Grip, NoGrip, find
from tests.fakes.remote_inventory import remote
from tests.fakes.smoke_story import inventory
from tests.fakes.until import until

WAIT = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of ours that does nothing."""
    child = subprocess.Popen(WAIT, stdin=subprocess.DEVNULL)
    yield child
    child.kill()
    child.wait()


def state(pid: int) -> str:
    """The system's letter for what a process does: T = it stands still."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=True, capture_output=True, text=True)
    return done.stdout.strip()[0]


def record(here: Inventory, host: str, pid: int) -> None:
    """What an activation writes of a host's node."""
    folder = here.home / "hosts" / host / "shared" / "run"
    folder.mkdir(parents=True)
    text = json.dumps({"release": "r", "digest": "d", "pid": pid, "argv": WAIT})
    (folder / f"{host}.node.json").write_text(text, encoding="utf-8")


def test_the_node_with_most_slots_is_found(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    """Its process is the one that the release helper tells."""
    here = inventory(tmp_path)
    for host in ("n1", "n2"):
        record(here, host, process.pid)

    found = find(here)
    assert (found.node_id, found.pid) == ("n2", process.pid)


def test_without_a_process_each_host_says_why(tmp_path: Path) -> None:
    """No service, or a host without signals: the case is skipped with these words."""
    with pytest.raises(NoGrip, match=r"^n2: its service manager tells no process of n2\.node; n1: its service"):
        find(inventory(tmp_path))
    there = remote(tmp_path)
    windows = tuple(host.model_copy(update={"service_manager": "windows_task"}) for host in there.hosts)
    with pytest.raises(NoGrip, match="gx10: Windows has no signals"):
        find(there.model_copy(update={"hosts": windows}))


async def test_what_is_held_stands_still_and_goes_on(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    """Only inside of the block."""
    grip = Grip(Shell(inventory(tmp_path), "n2"), "n2", process.pid)
    async with grip.held():
        assert state(process.pid) == "T"
    assert state(process.pid) != "T"


async def test_what_is_held_goes_on_when_its_holder_is_left_alone(
    tmp_path: Path, process: "subprocess.Popen[bytes]"
) -> None:
    """An error inside of the block, or a run that is ended there, lets it go as well."""
    grip = Grip(Shell(inventory(tmp_path), "n2"), "n2", process.pid)
    with pytest.raises(ZeroDivisionError):
        async with grip.held():
            raise ZeroDivisionError
    assert state(process.pid) != "T"

    script = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from iop.ops.shell import Shell\n"
        "from smoke.grip import Grip\n"
        "from tests.fakes.smoke_story import inventory\n"
        "async def main():\n"
        "    shell = Shell(inventory(Path(sys.argv[1])), 'n2')\n"
        "    async with Grip(shell, 'n2', int(sys.argv[2])).held():\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", script, str(tmp_path), str(process.pid)]
    done = await asyncio.to_thread(subprocess.run, command, env=env, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done
    await until(lambda: state(process.pid) != "T")


async def test_what_is_not_there_cannot_be_held_or_killed(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    """The host's own words are kept."""
    process.kill()
    process.wait()
    grip = Grip(Shell(inventory(tmp_path), "n2"), "n2", process.pid)

    with pytest.raises(NoGrip, match="n2 cannot be held: ProcessLookupError"):
        async with grip.held():
            pytest.fail("nothing was held")
    with pytest.raises(NoGrip, match="may not signal process"):
        grip.kill()


def test_what_is_killed_is_gone(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL, as a crash."""
    Grip(Shell(inventory(tmp_path), "n2"), "n2", process.pid).kill()

    assert process.wait() == -signal.SIGKILL
