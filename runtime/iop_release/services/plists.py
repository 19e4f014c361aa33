"""Texts of launchd property lists, and the rules that let an account drive these daemons."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iop_release.services import names
from iop_release.services.units import sudoers_text

LAUNCHCTL = "/bin/launchctl"
FOLDER = "/Library/LaunchDaemons"
PREVIOUS = "/var/db/iop"  # the definitions before the last bootstrap: root's own, as launchd wants it
#: a launcher that was taken away is a service that shall not run: that is no failure to start it again from
GUARD = 'test -x "$0" || exit 0; exec "$0"'
_PATH = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Daemon:
    """One daemon of the system domain. `output`: where what it prints goes; launchd does not rotate that file."""

    label: str
    arguments: tuple[str, ...]
    user: str
    home: str
    root: str
    output: str
    stop_s: int = 60
    env: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The plist's text, the same for the same values."""
        keys = {
            "Label": self.label,
            "ProgramArguments": list(self.arguments),
            "UserName": self.user,
            "WorkingDirectory": self.root,
            # launchd gives a daemon next to nothing
            "EnvironmentVariables": {
                "HOME": self.home,
                "LANG": "en_US.UTF-8",
                "PATH": _PATH,
                "PYTHONUNBUFFERED": "1",
                **self.env,
            },
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": self.stop_s,
            "ProcessType": "Interactive",  # the others are throttled, and what they start with them
            "SoftResourceLimits": {"NumberOfFiles": 8192},
            "Umask": 0o027,
            "StandardOutPath": self.output,
            "StandardErrorPath": self.output,
        }
        return plistlib.dumps(keys, sort_keys=False).decode("utf-8")


def path_of(label: str) -> str:
    """Where a daemon's plist is."""
    return f"{FOLDER}/{label}.plist"


def previous_of(label: str) -> str:
    """Where the plist before the last one is kept."""
    return f"{PREVIOUS}/{label}.plist"


def sudoers(user: str, labels: Sequence[str]) -> str:
    """The rules that let this account drive these daemons, and no other, without a password."""
    allowed = []
    for label in labels:
        target = f"system/{label}"
        words = [f"kickstart {target}", f"kickstart -k {target}", f"kill SIGTERM {target}", f"bootout {target}"]
        words += [f"bootstrap system {path_of(label)}", f"bootstrap system {previous_of(label)}", f"enable {target}"]
        words += [f"kill SIGHUP {target}"] if label == names.EDGE else []
        allowed += [f"{LAUNCHCTL} {one}" for one in words]
    return sudoers_text(user, allowed)
