"""iop_release.services.units: units that systemd itself accepts and calls well confined."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import units
from iop_release.services.units import Unit

#: exposure that `systemd-analyze security` may find at most, in tenths; measured 18, 44 and 39 with systemd 252
LIMITS = {"node": 22, "agents": 48, "engine": 44, "edge": 22}
SOCKETS = ("iop-edge-openai.socket", "iop-edge-nodes.socket", "iop-edge-admin.socket")
BASE = Unit("iop node 100% 'x'", "node", ("/bin/sh", "/srv/iop/x.sh"), "/srv/iop", "iop", "iop", ("/srv/iop/state",))
UNITS = {
    "node": replace(BASE, credentials=(("node.token", "/srv/iop/tokens/node.token"),)),
    "agents": replace(BASE, agents_home="/home/lab"),
    "engine": replace(BASE, kind="engine", notifies=False),
    "edge": replace(BASE, kind="edge", sockets=SOCKETS),
}
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


def _analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _written(folder: Path, unit: Unit) -> Path:
    """The unit and the Edge's sockets in a folder; its program is there."""
    for part in unit.command[1:]:
        Path(part).parent.mkdir(parents=True, exist_ok=True)
    path = folder / "iop-x.service"
    path.write_text(unit.text().replace("User=iop", "User=root").replace("Group=iop", "Group=root"), encoding="utf-8")
    for name in SOCKETS:
        text = units.socket(name.split("-")[2].partition(".")[0], "127.0.0.1:18083", "/srv/iop/x.sh")
        (folder / name).write_text(text.replace("Service=iop-edge", "Service=iop-x"), encoding="utf-8")
    return path


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_has_nothing_to_say(tmp_path: Path, name: str) -> None:
    """Not a word on stderr, for paths with blanks, quotes, percent and dollar signs too."""
    odd = tmp_path / "a b 100% 'c' $D"
    unit = replace(
        UNITS[name],
        root=str(odd),
        command=("/bin/sh", str(odd / "run" / "x.sh")),
        writable=(str(odd / "state"),),
        condition=str(odd / "run" / "x.sh"),
    )
    path = _written(tmp_path, unit)

    done = _analyze("verify", "--man=no", path)
    assert (done.returncode, done.stderr) == (0, "")
    path.write_text(path.read_text(encoding="utf-8") + "[Service]\nNoSuchKey=1\n", encoding="utf-8")
    assert "NoSuchKey" in _analyze("verify", "--man=no", path).stderr, "the check can fail"


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_exposure_stays_low(tmp_path: Path, name: str) -> None:
    """What systemd measures; a node with CLI agents and an engine need more of the host."""
    path = _written(tmp_path, UNITS[name])
    path.write_text(UNITS[name].text(), encoding="utf-8")

    done = _analyze("security", "--offline=true", f"--threshold={LIMITS[name]}", "--no-pager", path)
    assert done.returncode == 0, done.stdout.splitlines()[-1]
    assert _analyze("security", "--offline=true", "--threshold=5", "--no-pager", path).returncode == 1


def test_what_hardening_leaves() -> None:
    """Only named folders can be written; agents keep their home, and the sandbox that they bring."""
    assert "ReadWritePaths=/srv/iop/state\n" in UNITS["node"].text()
    assert "ProtectHome=true\n" in UNITS["node"].text()
    agents = UNITS["agents"].text()
    for line in ("ReadWritePaths=/srv/iop/state /home/lab", "Environment=HOME=/home/lab", "ProtectHome=read-only"):
        assert f"{line}\n" in agents
    assert "SystemCallFilter" not in agents
    assert "RestrictNamespaces" not in agents
    assert "PrivateDevices" not in UNITS["engine"].text()
    at_home = replace(BASE, root="/home/lab/iop", writable=("/home/lab/iop/state",)).text()
    assert "ProtectHome=read-only\n" in at_home


def test_readiness_and_sockets() -> None:
    """Ours say when they are ready and that they live; an engine may be any program; the Edge's sockets come first."""
    assert "Type=notify\nNotifyAccess=main\nWatchdogSec=30\n" in UNITS["node"].text()
    assert "Type=exec\n" in UNITS["engine"].text()
    for key in ("Requires", "After", "Sockets"):
        assert f"{key}={' '.join(SOCKETS)}\n" in UNITS["edge"].text()


def test_sudo_allows_exactly_these() -> None:
    """One line per command, each with all its arguments: nothing can be added to them."""
    lines = units.sudoers("lab", ["iop-edge", "iop-node"], SOCKETS).splitlines()[1:]
    stop_edge = f"stop {' '.join(SOCKETS)} iop-edge.service"
    wanted = [f"{verb} iop-edge.service" for verb in ("start", "restart", "reset-failed")]
    wanted += [stop_edge]
    wanted += [f"{verb} iop-node.service" for verb in ("start", "restart", "reset-failed", "stop")]
    wanted += [f"reset-failed {one}" for one in SOCKETS]
    assert lines == [f"lab ALL=(root) NOPASSWD: /usr/bin/systemctl {one}" for one in wanted]


@pytest.mark.parametrize("user", ["", "a b", "%wheel", "x\nALL", "ALL,root"])
def test_an_account_that_is_none_gets_no_rule(user: str) -> None:
    """A group, a list or a line end would let others in."""
    with pytest.raises(ReleaseError, match="not the name of an account"):
        units.sudoers_text(user, ["/bin/x"])


@pytest.mark.parametrize("root", ["/a\nExecStart=/bin/evil", "/a ", "/a\\"])
def test_a_path_that_a_unit_cannot_hold(root: str) -> None:
    """A line end would be another setting, a backslash at the end a continuation."""
    with pytest.raises(ReleaseError, match="cannot hold"):
        replace(BASE, root=root).text()


def test_credentials_from_a_path_with_a_blank_are_refused() -> None:
    """With one, systemd accepts the unit, and then does not start the service: `Failed to deserialize`."""
    with pytest.raises(ReleaseError, match="cannot load a credential"):
        replace(BASE, credentials=(("a", "/srv/i op/a"),)).text()
