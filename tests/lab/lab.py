"""The lab's hosts as tests use them: every call is one of tests/lab/lab.sh."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = str(ROOT / "tests" / "lab" / "lab.sh")
SSH_CONFIG = ROOT / "build" / "lab" / "ssh_config"
HOSTS = ("mac", "gx10", "onexplayer")
#: exit code of lab.sh: this machine cannot carry a lab
CANNOT = 3


class LabError(Exception):
    """A command of the lab failed; the text is what it said."""


@dataclass(frozen=True)
class Done:
    """A finished command: exit code and texts."""

    code: int
    out: str
    err: str


class Lab:
    """Three hosts that are up, of the checkout `root`. Each fault has its twin; `repair` undoes all of them."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._program = str(root / "tests" / "lab" / "lab.sh")

    def address(self, host: str) -> str:
        """Its address inside the lab's network."""
        return f"10.77.0.{11 + HOSTS.index(host)}"

    def ssh(self, host: str, *command: str, timeout: float = 60) -> Done:
        """A shell command as the account that deploys; a connection that fails has code 255."""
        return self._run(["ssh", "-F", str(self._root / "build" / "lab" / "ssh_config"), host, *command], timeout)

    def exec(self, host: str, *command: str, timeout: float = 60) -> Done:
        """A command as root inside the host, without its sshd."""
        return self._run([self._program, "exec", host, *command], timeout)

    def inside(self, *command: str, timeout: float = 60) -> Done:
        """A command of this machine in the lab's network: it sees the hosts' ports and nothing else."""
        return self._run([self._program, "inside", *command], timeout)

    def cut(self, host: str) -> None:
        """Its network cable is out."""
        self._fault("cut", host)

    def restore(self, host: str) -> None:
        """The cable is in again."""
        self._fault("restore", host)

    def loss(self, host: str, percent: int) -> None:
        """Drop that share of the packets that arrive."""
        self._fault("loss", host, str(percent))

    def reset(self, host: str, port: int) -> None:
        """Answer what comes to that port with a reset."""
        self._fault("reset", host, str(port))

    def heal(self, host: str) -> None:
        """No loss and no resets any more."""
        self._fault("heal", host)

    def freeze(self, host: str) -> None:
        """All its processes stand still; the kernel still accepts connections for them."""
        self._fault("freeze", host)

    def thaw(self, host: str) -> None:
        """They go on."""
        self._fault("thaw", host)

    def crash(self, host: str) -> None:
        """Power loss."""
        self._fault("crash", host)

    def boot(self, host: str) -> None:
        """Power on, and wait until ssh answers; the disk is as it was."""
        self._fault("boot", host)

    def clock(self, host: str, offset: str) -> None:
        """Move the time of day (`+2h`, `-90m`, `0`) for what is started there from now on."""
        self._fault("clock", host, offset)

    def fill(self, host: str) -> None:
        """No byte left on the disk that holds /srv."""
        self._fault("fill", host)

    def unfill(self, host: str) -> None:
        """Room again."""
        self._fault("unfill", host)

    def status(self) -> dict[str, str]:
        """State by host: `running`, or what is wrong and the command that undoes it."""
        lines = re.findall(r"^(\S+) +\S+ +(.*)$", self._run([self._program, "status"], 60).out, re.MULTILINE)
        return dict(lines)

    def is_up(self) -> bool:
        """Every host is booted and reachable."""
        return self.status() == dict.fromkeys(HOSTS, "running")

    def repair(self) -> None:
        """Undo every fault: all hosts on, thawed, connected, with room on the disk and the right time."""
        for host, state in self.status().items():
            if state.startswith("off"):
                self.boot(host)
            self.thaw(host)
            self.restore(host)
            self.heal(host)
            self.unfill(host)
            self.clock(host, "0")

    def _fault(self, *words: str) -> None:
        done = self._run([self._program, *words], 120)
        if done.code != 0:
            raise LabError(f"lab.sh {' '.join(words)}: exit {done.code}\n{done.err}")

    def _run(self, command: list[str], timeout: float) -> Done:
        done = subprocess.run(
            command,
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)
