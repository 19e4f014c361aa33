"""What a node needs on its host: its service's definition and the commands of a first installation, per system.

The texts are templates in `templates/` (`${name}` is filled in, `$$` is a dollar sign), shared by `edge node register`
and the deploy.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from string import Template
from xml.sax.saxutils import escape

from iop_release.errors import ReleaseError


@dataclass(frozen=True)
class System:
    """One operating system: the node's folder, account and home, the place of its service definition, its templates."""

    root: str
    user: str
    home: str
    service_path: str
    service: str
    script: str


SYSTEMS = {
    "macos": System(
        "/usr/local/iop", "$(id -un)", "$HOME", "/Library/LaunchDaemons/iop-node.plist", "macos.plist", "macos.sh"
    ),
    "linux": System("/opt/iop", "iop", "/opt/iop", "/etc/systemd/system/iop-node.service", "linux.service", "linux.sh"),
    # S-1-5-19 is LOCAL SERVICE in every language of Windows
    "windows": System("C:\\iop", "S-1-5-19", "", "the scheduled task iop-node", "windows.xml", "windows.ps1"),
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
        return _filled(self.system.service, self._values())

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
        return _filled(system.script, {**self._values(), **more})

    def _values(self) -> dict[str, str]:
        system = self.system
        return {
            "node_id": self.node_id,
            "root": self.root or system.root,
            "user": system.user,
            "home": system.home,
        }


def _filled(name: str, values: dict[str, str]) -> str:
    raw = pkgutil.get_data(__name__, f"templates/{name}")  # works in a zip application too
    assert raw is not None
    if name.endswith((".plist", ".xml")):
        values = {key: escape(value) for key, value in values.items()}
    text = raw.decode("utf-8").replace("\r\n", "\n")  # as git may write it on Windows
    return Template(text).substitute(values)
