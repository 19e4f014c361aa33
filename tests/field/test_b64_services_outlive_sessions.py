"""Field cases B64 and B65: services belong to the system's service manager, never to the session that deployed them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from iop_release.services.units import Unit

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("playbooks", "runtime/iop_release")
#: what ties a service to a login: systemd's user manager, launchd's session domains, a child of the ssh session
SESSIONS = {
    "a user unit": r"systemctl[\"', ]+--user|scope: *user|enable-linger",
    "a login's launchd domain": r"\bgui/|LaunchAgents",
    "a child of the session": r"Start-Process|\bnohup\b|\bsetsid\b",
}


@pytest.mark.parametrize("what", SESSIONS)
def test_nothing_is_started_in_a_session(what: str) -> None:
    """No playbook and no part of the helper starts a service in a way that ends with the login."""
    found = [path.name for path in _sources() if re.search(SESSIONS[what], path.read_text(encoding="utf-8"))]
    assert found == [], f"{what}: {found}"


def test_a_unit_is_the_systems_own() -> None:
    """It names its account, is started at boot, and needs no session's environment."""
    text = Unit("a node", "node", ("/bin/true",), "/srv/iop", "iop", "iop", ("/srv/iop/shared/state",)).text()

    assert "\nUser=iop\n" in text
    assert "\nWantedBy=multi-user.target\n" in text
    assert "XDG_RUNTIME_DIR" not in text
    assert "DBUS_SESSION" not in text


def _sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".yml", ".py", ".j2", ".ps1", ".service", ".plist", ".xml"}:
                yield path
