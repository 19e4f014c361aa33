"""Launchers: small scripts that set a service's environment and become its program.

Definitions of services (units, plists, tasks) are static, because installing them wants root. What a deploy changes
stands in the launcher, `<root>/shared/run/<unit>.sh` (`.cmd` on Windows), which is replaced in one step.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services import names
from iop_release.services.contract import Service

SH, CMD = ".sh", ".cmd"
_MARK = "iop service: "
_ARGV = "rem argv "
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Launchers:
    """The launchers of one host's folder, all of one kind: `.sh` or `.cmd`. `folder`: where below `shared`."""

    def __init__(self, root: Path, suffix: str = SH, folder: str = "run") -> None:
        self._folder = root.absolute() / "shared" / folder
        self._suffix = suffix

    def path(self, name: str) -> Path:
        """Where the launcher of this service is."""
        return self._folder / f"{names.unit(name)}{self._suffix}"

    def write(self, service: Service, output: Path | None = None) -> bool:
        """Write it, whole before it has its name; False when it says the same already. Raises `ReleaseError`.

        `output`: where a `.cmd` sends what the program prints. The owner and the folder's group may read and run it.
        """
        text = _sh(service) if self._suffix == SH else _cmd(service, output)
        path = self.path(service.name)
        raw = text.encode("utf-8")
        if path.is_file() and path.read_bytes() == raw:
            return False
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw)
        fresh.chmod(0o750)
        fresh.replace(path)
        return True

    def argv(self, name: str) -> tuple[str, ...]:
        """The arguments in a batch file; empty when there is none."""
        try:
            lines = self.path(name).read_text(encoding="utf-8").splitlines()
            return tuple(next(json.loads(line[len(_ARGV) :]) for line in lines if line.startswith(_ARGV)))
        except (FileNotFoundError, StopIteration):
            return ()

    def remove(self, name: str) -> None:
        """Take it away; its service does not start any more, at boot neither."""
        self.path(name).unlink(missing_ok=True)

    def services(self) -> dict[str, str]:
        """The names of all services that have a launcher, by unit."""
        found = {}
        for path in sorted(self._folder.glob(f"iop-*{self._suffix}")) if self._folder.is_dir() else ():
            head = path.read_text(encoding="utf-8").splitlines()[:2]
            name = head[-1].partition(_MARK)[2] if len(head) == 2 else ""
            if name:
                found[path.name[: -len(self._suffix)]] = name
        return found


def _sh(service: Service) -> str:
    lines = ["#!/bin/sh", f"# {_MARK}{service.name}", "# Written by each deploy; changes here are lost."]
    lines += [f"export {_key(key)}={shlex.quote(value)}" for key, value in sorted(service.env.items())]
    lines += [f"exec {' '.join(map(shlex.quote, service.argv))}"]
    return "\n".join(lines) + "\n"


def _cmd(service: Service, output: Path | None) -> str:
    """A batch file. Inside quotes cmd.exe still expands `%`, ends a line at a line break, and reads a code page."""
    texts = (*service.argv, *service.env.values(), str(output or ""))
    if any(char in text for text in texts for char in '\r\n"'):
        raise ReleaseError(f"a batch file cannot hold a line break or a quote: {service.name}: {texts!r}")
    lines = ["@echo off", f"rem {_MARK}{service.name}", "rem Written by each deploy; changes here are lost."]
    lines += [f"{_ARGV}{json.dumps(service.argv)}", "setlocal DisableDelayedExpansion", "chcp 65001 >nul"]
    lines += [f'set "{_key(key)}={_doubled(value)}"' for key, value in sorted(service.env.items())]
    command = " ".join(_doubled(_quoted(part)) for part in service.argv)
    lines += [":again", f'{command} >> "{_doubled(str(output))}" 2>&1' if output else command]
    # the Task Scheduler does not start again what ends with an error; ping waits where there is no console for timeout
    lines += ["if %ERRORLEVEL% EQU 0 exit /b 0", "ping -n 6 127.0.0.1 >nul", "goto again"]
    return "\r\n".join(lines) + "\r\n"


def _quoted(part: str) -> str:
    """An argument in quotes, by the rules of Microsoft's C runtime: backslashes before the last quote are doubled."""
    plain = subprocess.list2cmdline([part])
    if plain.startswith('"'):
        return plain
    tail = len(part) - len(part.rstrip("\\"))
    return f'"{part}{chr(92) * tail}"'


def _doubled(text: str) -> str:
    return text.replace("%", "%%")


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ReleaseError(f"not a name of an environment variable: {key!r}")
    return key
