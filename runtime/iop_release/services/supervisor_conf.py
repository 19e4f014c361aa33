"""The files that supervisord reads, and the short private folder of its socket."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import tempfile
from pathlib import Path

from iop_release.errors import ReleaseError
from iop_release.services.contract import Service

LOG_BYTES = "10MB"
LOG_FILES = 5
_SOCKET_LIMIT = 90  # bytes; the system's own is 104 on macOS, and supervisor first binds this name with `.<pid>`


def socket_folder(home: Path) -> Path:
    """The folder of this environment's socket: short, because socket paths are."""
    mark = hashlib.sha256(str(home.absolute()).encode()).hexdigest()[:10]
    name = f"iop-{os.getuid()}-{mark}"
    folder = Path(tempfile.gettempdir()) / name
    return folder if len(bytes(folder / "supervisor.sock")) <= _SOCKET_LIMIT else Path("/tmp") / name  # noqa: S108


def make_private(folder: Path) -> None:
    """Create the folder for this user only. Raises `ReleaseError` when someone else made it, or it is a link."""
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise ReleaseError(f"{folder} is not ours", "look who made it; the socket of our services must lie there")
    folder.chmod(0o700)


def daemon_text(folder: Path, socket: Path) -> str:
    """The text of supervisord.conf. Its programs lie beside it in `programs/`."""
    plain = {"folder": _literal(str(folder)), "socket": _literal(str(socket))}
    return _DAEMON.format(**plain, bytes=LOG_BYTES, files=LOG_FILES)


def program_text(service: Service, log: Path) -> str:
    """The text of one program's file."""
    env = ",".join(f'{key}="{_env_value(value)}"' for key, value in sorted(service.env.items()))
    return _PROGRAM.format(
        name=service.name,
        command=_literal(" ".join(shlex.quote(part) for part in service.argv)),
        env=env,
        wait=service.stop_wait_s,
        priority=service.priority,
        log=_literal(str(log)),
        bytes=LOG_BYTES,
        files=LOG_FILES,
        digest=service.digest,
    )


def _literal(text: str) -> str:
    """Text that supervisor takes as it is: `%` starts its expansions, ` ;` its comments, a line end its next key."""
    if "\n" in text or " ;" in text:
        raise ReleaseError(f"supervisor cannot hold this text: {text!r}", "move the checkout to a plainer path")
    return text.replace("%", "%%")


def _env_value(value: str) -> str:
    if '"' in value or "\\" in value:
        raise ReleaseError(f"supervisor cannot hold this environment value: {value!r}")
    return _literal(value)


_DAEMON = """\
; written by each deploy; changes here are lost
[supervisord]
logfile = {folder}/supervisord.log
logfile_maxbytes = {bytes}
logfile_backups = {files}
pidfile = {folder}/supervisord.pid
childlogdir = {folder}
directory = {folder}
umask = 077

[unix_http_server]
file = {socket}
chmod = 0600

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl = unix://{socket}

[include]
files = programs/*.conf
"""

# autostart is off: after a crash of supervisord its orphans still hold the ports, so that the deploy decides.
_PROGRAM = """\
; digest {digest}
[program:{name}]
command = {command}
environment = {env}
priority = {priority}
autostart = false
autorestart = true
startsecs = 1
startretries = 3
stopsignal = TERM
stopwaitsecs = {wait}
killasgroup = true
redirect_stderr = true
stdout_logfile = {log}
stdout_logfile_maxbytes = {bytes}
stdout_logfile_backups = {files}
"""
