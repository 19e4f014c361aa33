"""All that bootstrap installs for the services of one host: folders, static definitions, sudo rules, commands.

The same texts are rendered again by each deploy and compared with what the host has: a difference asks for bootstrap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from iop_release.errors import ReleaseError
from iop_release.services import names, plists, tasks_xml, units
from iop_release.services.launcher import Launchers
from iop_release.services.logs import output_of

MANAGERS = ("supervisor", "systemd", "launchd", "windows_task")
STOP_MARGIN_S = 10  # the system's own patience is longer than the program's
ROOTS_GROUP = "0"  # wheel on macOS, root elsewhere
SUDOERS = "/etc/sudoers.d/iop-services"
SYSTEMD = "/etc/systemd/system"
STORED = ("shared", "definitions.json")  # below the host's folder


@dataclass(frozen=True)
class File:
    """A file, or with `content` None a folder. `mode` is octal text, as Ansible and `install` take it."""

    path: str
    mode: str
    owner: str
    group: str
    content: str | None = None
    previous: str | None = None  # where what this replaces is kept
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Host:
    """One host and its services. `services`: name -> seconds that its program takes to stop.

    `addresses`: listener of the Edge -> `host:port`; `credentials`: unit -> files of `shared/tokens` that the service
    gets as systemd credentials of the same name; `agents_home`: home of the CLI agents that the node starts.
    """

    root: str
    manager: str
    user: str
    service_user: str
    group: str
    services: Mapping[str, int]
    addresses: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents_home: str | None = None

    @staticmethod
    def stored(root: Path) -> Host | None:
        """As the last bootstrap wrote it on this host; None when there was none. Raises `ReleaseError`."""
        path = root.joinpath(*STORED)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Host(**{one.name: data[one.name] for one in fields(Host)})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ReleaseError(f"{path} cannot be read: {error}") from error

    @property
    def units(self) -> list[str]:
        """The services by the names of their definitions."""
        return sorted(names.unit(name) for name in self.services)

    def sockets(self) -> tuple[str, ...]:
        """The units of the Edge's listeners, none without an Edge here."""
        has_edge = any(names.kind(name) == "edge" for name in self.services)
        return tuple(f"{names.EDGE}-{one}.socket" for one in names.LISTENERS if has_edge and one in self.addresses)

    def folders(self) -> list[File]:
        """The host's folder: the account that deploys owns it, services read it and write two folders of it only."""
        if self.manager == "supervisor":
            return []
        shared = f"{self.root}/shared"
        code = [self.root, f"{self.root}/releases", f"{self.root}/incoming", shared, f"{shared}/run"]
        written = [f"{shared}/state", f"{shared}/logs"]
        return [
            # the group is inherited by what is made inside
            *(File(path, "2750", self.user, self.group) for path in code),
            *(File(path, "2750", self.service_user, self.group) for path in written),
            File(f"{shared}/tokens", "0700", self.user, self.group),
        ]

    def files(self) -> list[File]:
        """All files, this description for later runs included. Raises `ReleaseError` for what cannot be rendered."""
        self._check()
        if self.manager == "supervisor":
            return []
        text = json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"
        stored = File(f"{self.root}/{'/'.join(STORED)}", "0640", self.user, self.group, text)
        return [*self.definitions(), stored]

    def definitions(self) -> list[File]:
        """The definitions and sudo rules alone."""
        return _RENDERERS[self.manager](self)

    def commands_after(self, changed: Sequence[str] = ()) -> list[list[str]]:
        """What root runs after any of the files has changed.

        A socket keeps its address for as long as it is open: of one that changed, the Edge is stopped with its sockets,
        and the next deploy starts it.
        """
        moved = any(path.endswith(".socket") for path in changed)
        stop = [["systemctl", "stop", *units.stop_targets(names.EDGE, self.sockets())]] if moved else []
        return stop + _COMMANDS[self.manager](self)

    def _check(self) -> None:
        if self.manager not in MANAGERS:
            raise ReleaseError(f"no service manager {self.manager!r}: one of {', '.join(MANAGERS)}")
        for unit in self.credentials:
            if unit not in self.units:
                raise ReleaseError(f"credentials for {unit}, which is no service here: {', '.join(self.units)}")
        if self.manager != "systemd" and self.credentials:
            raise ReleaseError(f"{self.manager} hands no credentials to services; let them read shared/tokens")
        for listener in self.addresses:
            if listener not in names.LISTENERS:
                raise ReleaseError(f"no listener {listener!r}: one of {', '.join(names.LISTENERS)}")


def _systemd(host: Host) -> list[File]:
    launchers = Launchers(Path(host.root))
    found = [
        File(f"{SYSTEMD}/{names.unit(name)}.service", "0644", "root", "root", systemd_unit(host, name).text())
        for name in sorted(host.services)
    ]
    for name in _edges(host):
        for listener, address in sorted(host.addresses.items()):
            text = units.socket(listener, address, str(launchers.path(name)))
            found.append(File(f"{SYSTEMD}/{names.EDGE}-{listener}.socket", "0644", "root", "root", text))
    rules = units.sudoers(host.user, host.units, host.sockets())
    return [*found, *_sudo_rules(host, rules, "root")]


def systemd_unit(host: Host, name: str) -> units.Unit:
    """The unit of one service."""
    unit, kind, shared = names.unit(name), names.kind(name), f"{host.root}/shared"
    launcher = str(Launchers(Path(host.root)).path(name))
    return units.Unit(
        description=f"iop {name}",
        kind=kind,
        command=("/bin/sh", launcher),
        root=host.root,
        user=host.service_user,
        group=host.group,
        writable=(f"{shared}/state", f"{shared}/logs"),
        stop_s=host.services[name] + STOP_MARGIN_S,
        condition=launcher,
        credentials=tuple((one, f"{shared}/tokens/{one}") for one in host.credentials.get(unit, ())),
        agents_home=host.agents_home if kind == "node" else None,
        sockets=host.sockets() if kind == "edge" else (),
        notifies=kind != "engine",  # which may be any program
    )


def _edges(host: Host) -> list[str]:
    return [name for name in sorted(host.services) if names.kind(name) == "edge"]


def _sudo_rules(host: Host, text: str, group: str) -> list[File]:
    return [] if host.user == "root" else [File(SUDOERS, "0440", "root", group, text)]


def _systemd_after(host: Host) -> list[list[str]]:
    every = [f"{unit}.service" for unit in host.units] + list(host.sockets())
    groups = [["usermod", "-aG", f"{host.group},systemd-journal", host.user]] if host.user != "root" else []
    return [*groups, ["systemctl", "daemon-reload"], ["systemctl", "enable", *every]]


def _launchd(host: Host) -> list[File]:
    found = []
    for name in sorted(host.services):
        label = names.unit(name)
        text = daemon(host, name).text()
        found.append(File(plists.path_of(label), "0644", "root", ROOTS_GROUP, text, plists.previous_of(label)))
    return [*found, *_sudo_rules(host, plists.sudoers(host.user, host.units), ROOTS_GROUP)]


def daemon(host: Host, name: str) -> plists.Daemon:
    """The launchd daemon of one service."""
    label = names.unit(name)
    return plists.Daemon(
        label=label,
        arguments=("/bin/sh", "-c", plists.GUARD, str(Launchers(Path(host.root)).path(name))),
        user=host.service_user,
        home=host.agents_home or f"/Users/{host.service_user}",
        root=host.root,
        output=str(output_of(Path(host.root), label)),
        stop_s=host.services[name] + STOP_MARGIN_S,
    )


def _windows(host: Host) -> list[File]:
    return [
        # schtasks reads what its first line says: UTF-16
        File(_xml_of(host, name), "0644", "", "", task(host, name).text(), encoding="utf-16")
        for name in sorted(host.services)
    ]


def task(host: Host, name: str) -> tasks_xml.Task:
    """The scheduled task of one service, as LOCAL SERVICE unless an account of its own is named."""
    user = tasks_xml.LOCAL_SERVICE if host.service_user == host.user else host.service_user
    launcher = f"{host.root}\\shared\\run\\{names.unit(name)}.cmd"
    return tasks_xml.Task(f"iop {name}", user, host.root, tasks_xml.running(launcher))


def _xml_of(host: Host, name: str) -> str:
    return f"{host.root}\\shared\\run\\{names.unit(name)}.xml"


def _windows_after(host: Host) -> list[list[str]]:
    user = f"*{tasks_xml.LOCAL_SERVICE}" if host.service_user == host.user else host.service_user
    rights = [("", "RX"), ("\\shared\\state", "M"), ("\\shared\\logs", "M")]
    allowed = [["icacls", f"{host.root}{folder}", "/grant", f"{user}:(OI)(CI){right}"] for folder, right in rights]
    names_of = [(names.unit(name), _xml_of(host, name)) for name in sorted(host.services)]
    return allowed + [["schtasks", "/Create", "/TN", unit, "/XML", path, "/F"] for unit, path in names_of]


def _nothing(_host: Host) -> list[Any]:
    return []


_RENDERERS = {"supervisor": _nothing, "systemd": _systemd, "launchd": _launchd, "windows_task": _windows}
_COMMANDS = {"supervisor": _nothing, "systemd": _systemd_after, "launchd": _nothing, "windows_task": _windows_after}
