"""iop.ops.logs: the end of a log, wherever the service manager keeps it."""

import subprocess
import sys
from pathlib import Path

from iop.ops.logs import command, tail, unit
from tests.fakes.remote_inventory import remote
from tests.fakes.smoke_story import inventory


def _log(here: Path, name: str, text: str) -> Path:
    path = inventory(here).home / "hosts" / "n1" / "shared" / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_systemd_keeps_them_in_its_journal(tmp_path: Path) -> None:
    """One unit, or all of ours."""
    there = remote(tmp_path)

    one = command(there, "gx10", ["gx10.node"], 7, follow=True)
    assert one == ["journalctl", "-u", "iop-node", "-n", "7", "-o", "short-iso", "--no-pager", "-f"]
    assert command(there, "gx10", [], 5)[1:3] == ["-u", "iop-*"]
    assert (unit("mac.edge"), unit("gx10-vllm.engine")) == ("iop-edge", "iop-engine-gx10-vllm")


def test_files_are_shown_by_service_and_only_their_end(tmp_path: Path) -> None:
    """Elsewhere they are files of the host's folder."""
    _log(tmp_path, "n1.node", "".join(f"line {number}\n" for number in range(30)))
    _log(tmp_path, "n1.edge", "edge says\n")

    assert tail(inventory(tmp_path), "n1", "n1.node").splitlines()[-1] == "n1.node | line 29"
    assert len(tail(inventory(tmp_path), "n1", "n1.node").splitlines()) == 15
    everything = command(inventory(tmp_path), "n1", [], 3)
    shown = subprocess.run(everything, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["n1.edge | edge says", *(f"n1.node | line {number}" for number in (27, 28, 29))]


def test_a_terminal_obeys_nothing_that_stands_in_a_log(tmp_path: Path) -> None:
    """Escape sequences and other control characters are written out; letters of any script and tabs stay."""
    _log(tmp_path, "n1.node", "a\x1b]0;title\x07b\x1b[2Jc\u202ed\té 東\x9b31m\n")

    assert tail(inventory(tmp_path), "n1", "n1.node") == (
        r"n1.node | a\x1b]0;title\x07b\x1b[2Jc\u202ed" + "\té 東" + r"\x9b31m"
    )


def test_no_log_is_told(tmp_path: Path) -> None:
    """The words of the host name the place."""
    assert "no log at" in tail(inventory(tmp_path), "n1", "n1.node")


def test_following_shows_what_is_added_and_a_log_that_was_rotated(tmp_path: Path) -> None:
    """New lines come as they are written; a file that became shorter is read from its start."""
    path = _log(tmp_path, "n1.node", "one\n")
    follower = command(inventory(tmp_path), "n1", ["n1.node"], 5, follow=True)
    with subprocess.Popen(follower, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "n1.node | one\n"
            with path.open("a", encoding="utf-8") as file:
                file.write("two\n")
            assert process.stdout.readline() == "n1.node | two\n"
            path.write_text("new\n", encoding="utf-8")
            assert process.stdout.readline() == "n1.node | new\n"
        finally:
            process.kill()


def test_the_program_needs_no_shell_that_knows_line_ends(tmp_path: Path) -> None:
    """It goes to Windows' cmd.exe as well: one line, no double quote."""
    windows = remote(tmp_path, service_manager="windows_task", root="C:/iop", python="C:/python.exe")
    argv = command(windows, "gx10", ["gx10.node"], 5)

    assert argv[0] == "C:/python.exe"
    assert not any(char in part for part in argv for char in '\n"')
    assert argv[-3].endswith("\\shared\\logs\\gx10.node.log")
    assert sys.executable not in argv
