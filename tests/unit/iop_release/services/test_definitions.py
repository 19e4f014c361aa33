"""iop_release.services.definitions: everything that bootstrap installs for one host."""

import json
import plistlib
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.definitions import SUDOERS, Host

HOST = Host(
    "/srv/iop",
    "systemd",
    "lab",
    "iop",
    "iop",
    {"mac.edge": 40, "mac.control": 40, "mac.node": 50, "mlx.engine": 40},
    {"openai": "127.0.0.1:18083", "nodes": "0.0.0.0:18084", "admin": "127.0.0.1:19093"},
    {"iop-edge": ["edge.key", "ca.pem"], "iop-node": ["node.token"]},
    "/home/iop",
)


def test_a_systemd_host() -> None:
    """A unit per service, a socket per listener, the sudo rules, and the description for later runs."""
    files = {file.path: file for file in HOST.files()}
    folder = "/etc/systemd/system"
    services = ["iop-control.service", "iop-edge.service", "iop-engine-mlx.service", "iop-node.service"]
    sockets = ["iop-edge-admin.socket", "iop-edge-nodes.socket", "iop-edge-openai.socket"]
    wanted = [f"{folder}/{name}" for name in services + sockets]
    assert set(files) == {*wanted, SUDOERS, "/srv/iop/shared/definitions.json"}
    assert {(files[path].mode, files[path].owner) for path in wanted} == {("0644", "root")}
    assert files[SUDOERS].mode == "0440"

    node = str(files[f"{folder}/iop-node.service"].content)
    for line in (
        "User=iop",
        "ExecStart=/bin/sh /srv/iop/shared/run/iop-node.sh",
        "ConditionPathExists=/srv/iop/shared/run/iop-node.sh",
        "TimeoutStopSec=60",
        "LoadCredential=node.token:/srv/iop/shared/tokens/node.token",
        "ReadWritePaths=/srv/iop/shared/state /srv/iop/shared/logs /home/iop",
    ):
        assert f"{line}\n" in node
    edge = str(files[f"{folder}/iop-edge.service"].content)
    assert "/home/iop" not in edge
    assert "LoadCredential=edge.key:/srv/iop/shared/tokens/edge.key\nLoadCredential=ca.pem:" in edge
    nodes = str(files[f"{folder}/iop-edge-nodes.socket"].content)
    assert "ListenStream=0.0.0.0:18084\nFileDescriptorName=nodes\nService=iop-edge.service\n" in nodes
    assert HOST.commands_after() == [
        ["usermod", "-aG", "iop,systemd-journal", "lab"],
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", *services, "iop-edge-openai.socket", "iop-edge-nodes.socket", "iop-edge-admin.socket"],
    ]


def test_folders_keep_services_out_of_the_code() -> None:
    """The deploying account owns all, but for the two folders that services write; tokens are its alone."""
    owners = {file.path: (file.owner, file.group, file.mode) for file in HOST.folders()}
    assert owners["/srv/iop"] == owners["/srv/iop/shared/run"] == ("lab", "iop", "2750")
    assert owners["/srv/iop/shared/state"] == owners["/srv/iop/shared/logs"] == ("iop", "iop", "2750")
    assert owners["/srv/iop/shared/tokens"] == ("lab", "iop", "0700")


def test_a_host_without_an_edge_has_no_sockets() -> None:
    """Addresses are the environment's; only the Edge's host listens on them."""
    host = replace(HOST, services={"gx10.node": 40}, credentials={})
    assert [file.path for file in host.definitions()] == ["/etc/systemd/system/iop-node.service", SUDOERS]
    as_root = replace(host, user="root")
    assert [file.path for file in as_root.definitions()] == ["/etc/systemd/system/iop-node.service"]
    assert as_root.commands_after()[0] == ["systemctl", "daemon-reload"]


def test_supervisor_needs_nothing_of_root() -> None:
    """No folders, files or commands."""
    host = replace(HOST, manager="supervisor", credentials={})
    assert (host.folders(), host.files(), host.commands_after()) == ([], [], [])


def test_a_launchd_host() -> None:
    """A plist per service that root owns, with the one before kept aside, and rules for launchctl."""
    host = replace(HOST, manager="launchd", credentials={}, service_user="lab", group="staff")
    files = {file.path: file for file in host.files()}
    plist = files["/Library/LaunchDaemons/iop-engine-mlx.plist"]
    assert (plist.mode, plist.owner, plist.group) == ("0644", "root", "0")
    assert plist.previous == "/var/db/iop/iop-engine-mlx.plist"
    told = plistlib.loads(str(plist.content).encode())
    assert told["ProgramArguments"][-1] == "/srv/iop/shared/run/iop-engine-mlx.sh"
    assert (told["UserName"], told["ExitTimeOut"]) == ("lab", 50)
    assert told["EnvironmentVariables"]["HOME"] == "/home/iop"
    assert "NOPASSWD: /bin/launchctl kickstart -k system/iop-node\n" in str(files[SUDOERS].content)
    assert host.commands_after() == []


def test_a_windows_host() -> None:
    """A task per service as LOCAL SERVICE, in the encoding that its first line names, and what registers it."""
    host = Host("C:\\iop", "windows_task", "adm", "adm", "adm", {"x.node": 40})
    file = host.files()[0]
    assert (file.path, file.encoding) == ("C:\\iop\\shared\\run\\iop-node.xml", "utf-16")
    assert "<UserId>S-1-5-19</UserId>" in str(file.content)
    assert '/d /c ""C:\\iop\\shared\\run\\iop-node.cmd""' in str(file.content).replace("&quot;", '"')
    commands = host.commands_after()
    assert ["icacls", "C:\\iop\\shared\\logs", "/grant", "*S-1-5-19:(OI)(CI)M"] in commands
    assert commands[-1] == ["schtasks", "/Create", "/TN", "iop-node", "/XML", file.path, "/F"]
    own = replace(host, service_user="svc")
    assert "<UserId>svc</UserId>" in str(own.files()[0].content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"manager": "upstart"}, "no service manager 'upstart'"),
        ({"credentials": {"iop-x": ["a"]}}, "credentials for iop-x, which is no service here"),
        ({"manager": "supervisor"}, "hands no credentials"),
        ({"addresses": {"web": "a:1"}}, "no listener 'web'"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, object], words: str) -> None:
    """In words, before anything is written."""
    with pytest.raises(ReleaseError, match=words):
        replace(HOST, **change).files()  # type: ignore[arg-type]


def test_the_description_is_read_back(tmp_path: Path) -> None:
    """What bootstrap wrote is the same host again; none is None; a broken one is an error that names the file."""
    assert Host.stored(tmp_path) is None
    path = tmp_path / "shared" / "definitions.json"
    path.parent.mkdir()
    path.write_text(str(HOST.files()[-1].content), encoding="utf-8")
    again = Host.stored(tmp_path)
    assert again is not None
    assert again.files() == HOST.files()
    path.write_text(json.dumps({"root": "/x"}), encoding="utf-8")
    with pytest.raises(ReleaseError, match=r"definitions\.json cannot be read"):
        Host.stored(tmp_path)
