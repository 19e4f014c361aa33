"""What runs on Windows: the process table by PowerShell, who listens by netstat. Not run on a real Windows."""

from __future__ import annotations

import json
import subprocess

from iop_release.errors import ReleaseError

_QUERY = (
    "[Console]::OutputEncoding = [Text.Encoding]::UTF8; "
    "Get-CimInstance Win32_Process | Select-Object ProcessId,ParentProcessId,CommandLine | ConvertTo-Json -Compress"
)


def rows() -> list[tuple[int, int, tuple[str, ...]]]:
    """(pid, parent, arguments) of all processes whose command line this account may see. Raises `ReleaseError`."""
    command = ["powershell", "-NoProfile", "-NonInteractive", "-Command", _QUERY]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        found = json.loads(done.stdout.decode("utf-8-sig", "replace"))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"cannot list the processes of this host: {error}", "is PowerShell on PATH?") from error
    entries = found if isinstance(found, list) else [found]
    return [
        (int(one["ProcessId"]), int(one["ParentProcessId"]), split(one["CommandLine"]))
        for one in entries
        if one.get("CommandLine")
    ]


def listener(port: int) -> int | None:
    """The pid that listens on this TCP port. The words of netstat depend on the language: only numbers are read.

    The foreign address of a listening socket has port 0.
    """
    for kind in ("TCP", "TCPv6"):
        try:
            done = subprocess.run(
                ["netstat", "-ano", "-p", kind],  # noqa: S607 - it is on PATH of every Windows
                stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            fields = line.split()
            listens = len(fields) == 5 and fields[0] == "TCP" and fields[2].endswith(":0") and fields[4].isdigit()
            if listens and fields[1].rpartition(":")[2] == str(port):
                return int(fields[4])
    return None


def split(line: str) -> tuple[str, ...]:
    """A command line as its program sees it, by the rules of Microsoft's C runtime."""
    words: list[str] = []
    word, open_word, quoted, at = "", False, False, 0
    while at < len(line):
        char = line[at]
        if char in " \t" and not quoted:
            words += [word] if open_word else []
            word, open_word, at = "", False, at + 1
            continue
        open_word = True
        slashes = len(line) - at - len(line[at:].lstrip("\\"))
        at += slashes
        if at < len(line) and line[at] == '"':
            word += "\\" * (slashes // 2)
            if slashes % 2:
                word += '"'
            elif quoted and line[at : at + 2] == '""':
                word, at = word + '"', at + 1
            else:
                quoted = not quoted
            at += 1
        else:
            word += "\\" * slashes
            if not slashes:
                word, at = word + char, at + 1
    return tuple([*words, word] if open_word else words)
