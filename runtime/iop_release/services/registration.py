"""What `edge node register` tells of a node's host: the service's definition and the commands of a first installation.

The definitions are made of the same templates as those of a deploy (`definitions`).
"""

from __future__ import annotations

from dataclasses import dataclass

from iop_release.errors import ReleaseError
from iop_release.services.logs import LOG_FILE
from iop_release.services.plists import Daemon
from iop_release.services.tasks_xml import LOCAL_SERVICE, Task
from iop_release.services.templates_of import filled
from iop_release.services.units import Unit


@dataclass(frozen=True)
class System:
    """One operating system: the node's folder, account and home, the place of its service definition, its commands."""

    root: str
    user: str
    home: str
    service_path: str
    script: str


SYSTEMS = {
    "macos": System("/usr/local/iop", "$(id -un)", "$HOME", "/Library/LaunchDaemons/iop-node.plist", "macos.sh"),
    "linux": System("/opt/iop", "iop", "/opt/iop", "/etc/systemd/system/iop-node.service", "linux.sh"),
    "windows": System("C:\\iop", LOCAL_SERVICE, "", "the scheduled task iop-node", "windows.ps1"),
}


@dataclass(frozen=True)
class NodeHost:
    """One node on one host. `root` None = the system's usual folder."""

    node_id: str
    platform: str
    root: str | None = None

    @property
    def system(self) -> System:
        """The host's system. Raises `ReleaseError` for an unknown platform."""
        try:
            return SYSTEMS[self.platform]
        except KeyError:
            raise ReleaseError(f"no platform {self.platform!r}: expected one of {', '.join(SYSTEMS)}") from None

    def service(self) -> str:
        """The definition of the node's service: systemd unit, launchd plist or task XML."""
        if self.platform == "windows":
            return self._task().text()
        return self._unit().text() if self.platform == "linux" else self._daemon().text()

    def bootstrap(self, node_yaml: str, token_file: str, wheel: str) -> str:
        """The commands that install the node on a fresh host, service definition and node.yaml included.

        `node_yaml` is that file's text; `token_file` is the token's path on the Edge's host; `wheel` what pip installs.
        """
        system = self.system
        more = {
            "node_yaml": node_yaml,
            "service": self.service(),
            "service_path": system.service_path,
            "token_file": token_file,
            "wheel": wheel,
        }
        return filled(system.script, {**self._values(), **more})

    def _unit(self) -> Unit:
        root, user = self._values()["root"], self.system.user
        command = (f"{root}/venv/bin/iop-node", "--config", f"{root}/node.yaml", "serve")
        return Unit(f"iop node {self.node_id}", "node", command, root, user, user, (f"{root}/state",))

    def _daemon(self) -> Daemon:
        values = self._values()
        root = values["root"]
        command = (f"{root}/venv/bin/iop-node", "--config", f"{root}/node.yaml", "serve")
        env = {LOG_FILE: f"{root}/logs/node.log"}
        return Daemon("iop-node", command, values["user"], values["home"], root, f"{root}/logs/node.out", env=env)

    def _task(self) -> Task:
        values = self._values()
        root = values["root"]
        program = f'"{root}\\venv\\Scripts\\iop-node.exe" --config "{root}\\node.yaml" serve'
        env = f"set PYTHONUTF8=1& set {LOG_FILE}={root}\\logs\\node.log& "
        arguments = f'/d /c "{env}{program} >> "{root}\\logs\\node.out" 2>&1"'
        return Task(f"iop node {self.node_id}", values["user"], root, arguments)

    def _values(self) -> dict[str, str]:
        system = self.system
        return {
            "node_id": self.node_id,
            "root": self.root or system.root,
            "user": system.user,
            "home": system.home,
        }
