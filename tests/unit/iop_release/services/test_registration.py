"""What a node needs on its host: definitions that the systems' own formats accept."""

import plistlib
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services.registration import SYSTEMS, NodeHost

TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_passes_systemd(tmp_path: Path) -> None:
    """systemd-analyze has nothing to say about it, and calls its exposure low."""
    program = tmp_path / "venv" / "bin" / "iop-node"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "iop-node.service"
    unit.write_text(NodeHost("n1", "linux", str(tmp_path)).service())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_plist_is_one() -> None:
    """A daemon with absolute program paths that is kept alive, is not throttled and gets time to stop."""
    told = plistlib.loads(NodeHost("n1", "macos").service().encode())
    assert told["ProgramArguments"] == [
        "/usr/local/iop/venv/bin/iop-node",
        "--config",
        "/usr/local/iop/node.yaml",
        "serve",
    ]
    assert (told["ProcessType"], told["KeepAlive"], told["RunAtLoad"]) == (
        "Interactive",
        {"SuccessfulExit": False},
        True,
    )
    assert told["ExitTimeOut"] > 30
    assert told["Umask"] == 0o027
    assert told["EnvironmentVariables"]["IOP_LOG_FILE"] == "/usr/local/iop/logs/node.log"


def test_the_task_is_one() -> None:
    """It starts at boot, never times out, is started again, and runs as LOCAL SERVICE."""
    task = ET.fromstring(NodeHost("n1", "windows").service().replace(' encoding="UTF-16"', ""))
    text = {element.tag.removeprefix(TASK): element.text for element in task.iter()}
    assert {"BootTrigger", "RestartOnFailure"} <= set(text)
    assert (text["ExecutionTimeLimit"], text["UserId"]) == ("PT0S", "S-1-5-19")
    assert '"C:\\iop\\venv\\Scripts\\iop-node.exe" --config "C:\\iop\\node.yaml" serve >>' in (text["Arguments"] or "")
    assert "set IOP_LOG_FILE=C:\\iop\\logs\\node.log& " in (text["Arguments"] or "")


@pytest.mark.parametrize("platform", SYSTEMS)
def test_the_commands_hold_everything(platform: str) -> None:
    """Service definition, node.yaml, wheel and the token's path stand in the commands; no placeholder is left."""
    host = NodeHost("n1", platform)
    text = host.bootstrap("node: {id: n1}\n", "/cfg/n1.token", "iop.whl")
    for part in (
        host.service(),
        "node: {id: n1}\n",
        '"EDGE-HOST:/cfg/n1.token"',
        "pip",
        "iop.whl",
        "State of this text:",
    ):
        assert part in text
    assert "${" not in text
    assert ("NOT yet run on a real" in text) == (platform != "linux")


def test_values_are_escaped_where_the_format_wants_it() -> None:
    """A folder with an ampersand does not break the XML."""
    told = plistlib.loads(NodeHost("n1", "macos", "/opt/a&b").service().encode())
    assert told["WorkingDirectory"] == "/opt/a&b"


def test_another_platform_is_refused() -> None:
    """The known ones are named."""
    with pytest.raises(ReleaseError, match="macos, linux, windows"):
        NodeHost("n1", "beos").service()


def test_the_wheel_holds_the_templates(tmp_path: Path) -> None:
    """What pip installs has every template, and they can be read from a zip."""
    root = Path(__file__).resolve().parents[4]
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(root))
    wheel = next(iter(builder.build(directory=str(tmp_path), versions=["standard"])))
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.name for path in (root / "runtime/iop_release/services/templates").iterdir()}
    assert {system.script for system in SYSTEMS.values()} <= wanted
    assert {f"iop_release/services/templates/{name}" for name in wanted} <= names
