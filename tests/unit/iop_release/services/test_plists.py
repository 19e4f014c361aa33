"""iop_release.services.plists: property lists that launchd would take, and rules for launchctl."""

import plistlib
from dataclasses import replace

from iop_release.services import plists
from iop_release.services.plists import Daemon

#: every key of launchd.plist(5) that iop uses, and the type that launchd wants
KEYS = {
    "Label": str,
    "ProgramArguments": list,
    "UserName": str,
    "WorkingDirectory": str,
    "EnvironmentVariables": dict,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "SoftResourceLimits": dict,
    "Umask": int,
    "StandardOutPath": str,
    "StandardErrorPath": str,
}
DAEMON = Daemon("iop-node", ("/bin/sh", "/a&b/<x>.sh"), "me", "/Users/me", "/a&b", "/a&b/x.out", 50, {"X": "1"})


def test_a_plist_is_read_back() -> None:
    """Only known keys of the right types; odd characters survive; the same values give the same text."""
    told = plistlib.loads(DAEMON.text().encode())

    assert {key: type(value) for key, value in told.items()} == KEYS
    assert told["ProgramArguments"] == ["/bin/sh", "/a&b/<x>.sh"]
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert (told["ProcessType"], told["ExitTimeOut"], told["Umask"]) == ("Interactive", 50, 0o027)
    assert told["EnvironmentVariables"]["X"] == "1"
    assert all(isinstance(value, str) for value in told["EnvironmentVariables"].values())
    assert DAEMON.text() == replace(DAEMON).text()


def test_rules_name_every_command_in_full() -> None:
    """Only the Edge is told to replace its program (SIGHUP)."""
    text = plists.sudoers("me", ["iop-edge", "iop-node"])
    node = [line for line in text.splitlines() if "iop-node" in line]
    assert [line.partition("NOPASSWD: ")[2] for line in node] == [
        "/bin/launchctl kickstart system/iop-node",
        "/bin/launchctl kickstart -k system/iop-node",
        "/bin/launchctl kill SIGTERM system/iop-node",
        "/bin/launchctl bootout system/iop-node",
        "/bin/launchctl bootstrap system /Library/LaunchDaemons/iop-node.plist",
        "/bin/launchctl bootstrap system /var/db/iop/iop-node.plist",
        "/bin/launchctl enable system/iop-node",
    ]
    assert "kill SIGHUP system/iop-edge\n" in text
