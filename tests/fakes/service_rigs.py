"""Every service manager over something that acts like its system: the rigs of the one contract test."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from iop_release import processes
from iop_release.services import names, windows_task
from iop_release.services.contract import Service, ServiceManager
from iop_release.services.definitions import STOP_MARGIN_S, Host
from iop_release.services.installed import placed
from iop_release.services.launchd import Launchd, Times
from iop_release.services.logs import output_of
from iop_release.services.supervisor import Supervisor
from iop_release.services.systemd import Systemd

FAKES = Path(__file__).parent
NAMES = ("gx10.node", "gx10.edge", "vllm.engine")
_TELL = (
    "a=os.environ.get('NOTIFY_SOCKET'); s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); "
    "a and s.sendto(b'READY=1', chr(0)+a[1:])"
)
IDLE = f"import os,signal,socket; print('hello', flush=True); {_TELL}; signal.pause()"
_IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
DEAF = f"import os,signal,socket; {_IGNORE}; {_TELL}; [signal.pause() for _ in range(99)]"
GENTLE = f"import os,signal,socket,sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); {_TELL}; signal.pause()"
BROKEN = "import sys; sys.exit('no luck today')"


class Rig:
    """A host's folder and its service manager. `odd` stands in every path, because people choose such folders."""

    manager: ServiceManager
    odd = "a b"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = self.root = folder / self.odd

    def service(self, name: str = "gx10.node", code: str = IDLE, **env: str) -> Service:
        """A service that runs this code. Its program is known by its mark, as the real ones are."""
        mark = f"iop-release={self.root}/releases/r1"
        return Service(name, (sys.executable, "-X", mark, "-c", code, name), env, stop_wait_s=1)

    def log(self, name: str = "gx10.node") -> Path:
        """Where a manager without a journal sends what the program says."""
        return self.root / "shared" / "logs" / f"{name}.log"

    def said(self, name: str = "gx10.node") -> str:
        """What the program said."""
        return self.log(name).read_text(encoding="utf-8")

    def ours(self) -> list[int]:
        """The programs that live, by pid."""
        return sorted(one.pid for one in processes.services_under(self.root, processes.table()))

    def close(self) -> None:
        """End whatever is left."""
        self.manager.down()
        for pid in self.ours():
            os.kill(pid, signal.SIGKILL)


class SupervisorRig(Rig):
    """The real supervisord."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.root / "shared" / "logs").mkdir(parents=True)
        self.manager = Supervisor(self.home)


class SystemdRig(Rig):
    """A stand-in for systemctl that runs real processes; units as bootstrap installs them."""

    odd = "a b%i'$HOME"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.state = folder / "systemd"
        self.below = self.state / "root"
        self.state.mkdir()
        (self.root / "shared").mkdir(parents=True)
        place(folder / "bin", FAKES / "fake_systemctl.py", ("systemctl", "sudo", "journalctl"))
        os.environ["FAKE_SYSTEMD"] = str(self.state)
        (self.state / "stop-timeout").write_text("1", encoding="utf-8")
        self.install(NAMES)
        self.manager = Systemd(self.root, sudo=("sudo", "-n"), installed_below=self.below, steady_s=0.3)

    def host(self, services: Sequence[str]) -> Host:
        """What bootstrap is told of this host."""
        addresses = dict.fromkeys(names.LISTENERS, "127.0.0.1:0")
        seconds = dict.fromkeys(services, 1)
        return Host(str(self.root), "systemd", "lab", "iop", "iop", seconds, addresses)

    def install(self, services: Sequence[str]) -> None:
        """What `definitions --install` does, without the owners."""
        host = self.host(services)
        for file in host.definitions():
            path = placed(file, self.below)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content or "", encoding="utf-8")
        stored = host.files()[-1]
        Path(stored.path).write_text(stored.content or "", encoding="utf-8")
        self.reload()

    def reload(self) -> None:
        """`systemctl daemon-reload`, which root alone may do."""
        etc, read = self.below / "etc" / "systemd" / "system", self.state / "units"
        shutil.rmtree(read, ignore_errors=True)
        shutil.copytree(etc, read)

    def said(self, name: str = "gx10.node") -> str:
        """What the journal has."""
        return (self.state / f"{names.unit(name)}.service.journal").read_text(encoding="utf-8")

    def calls(self) -> list[str]:
        """What was asked of sudo, in order."""
        lines = (self.state / "calls").read_text(encoding="utf-8").splitlines()
        return [line.removeprefix("sudo -n systemctl ") for line in lines if line.startswith("sudo ")]

    def know(self, unit: str, **facts: object) -> None:
        """Make systemd know something of a unit."""
        base = {"ActiveState": "inactive", "SubState": "dead", "MainPID": 0, "Result": "success", "NRestarts": 0}
        (self.state / f"{unit}.json").write_text(json.dumps({**base, **facts}), encoding="utf-8")


class LaunchdRig(Rig):
    """A stand-in for launchctl that runs real processes; plists as bootstrap installs them."""

    odd = "a b&'$HOME"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.state = folder / "launchd"
        self.below = self.state / "root"
        self.below.mkdir(parents=True)
        for name in ("run", "logs"):
            (self.root / "shared" / name).mkdir(parents=True)
        place(folder / "bin", FAKES / "fake_launchctl.py", ("launchctl", "sudo"))
        os.environ["FAKE_LAUNCHD"] = str(self.state)
        self.install(NAMES)
        times = Times(steady=0.3, appear=20, bootstrap=20, vanish=20, between=0.02)
        self.manager = Launchd(self.root, sudo=("sudo", "-n"), installed_below=self.below, times=times)

    def install(self, services: Sequence[str], **change: object) -> None:
        """What `definitions --install` does, without the owners."""
        seconds = dict.fromkeys(services, 1 - STOP_MARGIN_S)  # together with the margin: one second
        host = replace(Host(str(self.root), "launchd", "me", "me", "staff", seconds), **change)
        for file in host.definitions():
            path = placed(file, self.below)
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.previous and path.is_file():
                previous = self.below / file.previous.lstrip("/")
                previous.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, previous)
            path.write_text(file.content or "", encoding="utf-8")
        stored = host.files()[-1]
        Path(stored.path).write_text(stored.content or "", encoding="utf-8")

    def said(self, name: str = "gx10.node") -> str:
        """What the program printed."""
        return output_of(self.root, names.unit(name)).read_text(encoding="utf-8")

    def calls(self) -> list[str]:
        """What was asked of sudo, in order."""
        lines = (self.state / "calls").read_text(encoding="utf-8").splitlines()
        return [line.removeprefix("-n launchctl ") for line in lines]

    def close(self) -> None:
        """End whatever is left, the runners of the stand-in with it."""
        (self.state / "refuse-sudo").unlink(missing_ok=True)
        super().close()


class WindowsRig(Rig):
    """A stand-in for schtasks that runs launchers, tasks as an administrator registered them."""

    odd = "a b&'$HOME"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.state = folder / "tasks"
        self.state.mkdir()
        for name in ("run", "logs", "state"):
            (self.root / "shared" / name).mkdir(parents=True)
        place(folder / "bin", FAKES / "fake_schtasks.py", ("schtasks", "taskkill"))
        os.environ["FAKE_TASKS"] = str(self.state)
        self.install(NAMES)
        times = windows_task.Times(steady=0.3, appear=20, vanish=20, between=0.02)
        self.manager = windows_task.WindowsTask(self.root, times=times)

    def install(self, services: Sequence[str]) -> None:
        """The XML where `definitions --install` puts it, and registered."""
        host = Host(str(self.root), "windows_task", "me", "me", "me", dict.fromkeys(services, 1 - STOP_MARGIN_S))
        for file, name in zip(host.definitions(), sorted(services), strict=True):
            placed(file, Path("/")).write_bytes((file.content or "").encode(file.encoding))
            (self.state / f"{names.unit(name)}.xml").write_text(file.content or "", encoding="utf-8")
        stored = host.files()[-1]
        Path(stored.path).write_text(stored.content or "", encoding="utf-8")

    def said(self, name: str = "gx10.node") -> str:
        """What the program printed."""
        return output_of(self.root, names.unit(name)).read_text(encoding="utf-8")

    def calls(self) -> list[str]:
        """What was asked of the tools, in order."""
        return (self.state / "calls").read_text(encoding="utf-8").splitlines()


RIGS: dict[str, Callable[[Path], Rig]] = {
    "supervisor": SupervisorRig,
    "systemd": SystemdRig,
    "launchd": LaunchdRig,
    "windows_task": WindowsRig,
}


def place(folder: Path, program: Path, tools: Sequence[str]) -> None:
    """Put programs of these names first on PATH; each is `program` with its own name as the first argument.

    PATH is the test's to restore (monkeypatch).
    """
    folder.mkdir(exist_ok=True)
    for tool in tools:
        path = folder / tool
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {program} {tool} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
