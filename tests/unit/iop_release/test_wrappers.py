"""iop_release.wrappers: the commands in bin/."""

import subprocess
from pathlib import Path

from iop_release.layout import HostRoot
from iop_release.wrappers import COMMANDS, write


def test_commands_start_the_current_release(tmp_path: Path) -> None:
    """Arguments arrive as they are, the release's id is known, and a path with a blank is no trouble."""
    root, folder = HostRoot(tmp_path / "a host"), tmp_path / "bin"
    python = root.release("r1") / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$IOP_RELEASE_ID" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    root.switch("r1")

    assert write(root, folder, dry_run=True)
    assert not folder.exists()
    assert write(root, folder)
    assert not write(root, folder)
    done = subprocess.run([folder / "edge", "--config", "x y"], check=True, capture_output=True, text=True)
    assert done.stdout == "r1 -I -m iop.commands.edge --config x y\n"


def test_a_damaged_command_is_written_again(tmp_path: Path) -> None:
    """Other text or a lost executable bit is repaired."""
    root, folder = HostRoot(tmp_path / "host"), tmp_path / "bin"
    write(root, folder)
    (folder / "edge").write_text("", encoding="utf-8")
    (folder / "iop-node").chmod(0o600)

    assert write(root, folder)
    assert not write(root, folder)
    assert {path.name for path in folder.iterdir()} == set(COMMANDS)


def test_windows_gets_commands_of_its_own(tmp_path: Path) -> None:
    """They read the release's id from the file that stands in for the link."""
    root = HostRoot(tmp_path / "iop", links=False)

    assert write(root, tmp_path / "bin", windows=True)
    assert not write(root, tmp_path / "bin", windows=True)

    text = (tmp_path / "bin" / "edge.cmd").read_text(encoding="utf-8")
    assert f'set /p IOP_RELEASE_ID=<"{root.path}\\current"' in text
    assert '\\venv\\Scripts\\python.exe" -I -m iop.commands.edge %*' in text
