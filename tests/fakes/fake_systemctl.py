"""systemctl, journalctl and sudo as programs on PATH: real processes, real exit codes, state in a folder.

`FAKE_SYSTEMD` names that folder: `units/` holds the unit files that systemd has read (a copy, made by `daemon-reload`),
`<unit>.json` what is known of one, `calls` every call, `stop-timeout` the seconds before KILL; `refuse-sudo` makes sudo
refuse, and `<unit>.limit` stands for a start limit that was hit.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ["FAKE_SYSTEMD"])
ETC = HOME / "root" / "etc" / "systemd" / "system"
READ = HOME / "units"
QUIET = {"ActiveState": "inactive", "SubState": "dead", "MainPID": 0, "Result": "success", "NRestarts": 0}


def complain(text):
    """Say it on stderr."""
    sys.stderr.write(f"{text}\n")


def unit_file(unit):
    """What systemd has read of this unit, as key -> last value; None when it does not know it."""
    path = READ / unit
    if not path.is_file():
        return None
    pairs = [line.partition("=") for line in path.read_text().splitlines() if "=" in line and line[0] != "#"]
    return {key: value for key, _, value in pairs}


def state(unit):
    """The unit's state, its process looked at again."""
    path = HOME / f"{unit}.json"
    known = json.loads(path.read_text()) if path.is_file() else dict(QUIET)
    if known["ActiveState"] == "active" and known["MainPID"] and not alive(known["MainPID"]):
        known = {**QUIET, "ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}
    return known


def keep(unit, **facts):
    """Remember the unit's state."""
    (HOME / f"{unit}.json").write_text(json.dumps({**QUIET, **facts}))


def alive(pid):
    """True while the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def unquoted(word):
    """A word of ExecStart as systemd reads it."""
    if word.startswith('"'):
        word = word[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return word.replace("%%", "%").replace("$$", "$")


def start(unit):
    """`systemctl start`: returns when the program says READY=1 (Type=notify) or was executed (Type=exec)."""
    file = unit_file(unit)
    if file is None:
        complain(f"Failed to start {unit}: Unit {unit} not found.")
        return 5
    if state(unit)["ActiveState"] == "active":
        return 0
    if (HOME / f"{unit}.limit").exists() and state(unit)["ActiveState"] == "failed":
        complain(f"Job for {unit} failed.\nStart request repeated too quickly.")
        return 1
    for needed in file.get("Requires", "").split():
        keep(needed, ActiveState="active", SubState="listening")
    if not Path(file["ConditionPathExists"].replace("%%", "%")).exists():
        return 0  # a condition that does not hold is no failure
    shell, _, rest = file["ExecStart"].partition(" ")
    address = f"\0fake-systemd-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, (HOME / f"{unit}.journal").open("ab") as journal:
        notify.bind(address)
        notify.settimeout(0.05)
        env = {key: value for key, value in os.environ.items() if not key.startswith("FAKE_")}
        if file["Type"] == "notify":
            env["NOTIFY_SOCKET"] = f"@{address[1:]}"
        child = subprocess.Popen(
            [shell, unquoted(rest)],
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            env=env,
            start_new_session=True,
        )
        while file["Type"] == "notify":
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in notify.recv(4096):
                    break
            if child.poll() is not None:
                keep(unit, ActiveState="failed", SubState="failed", Result="exit-code")
                complain(f"Job for {unit} failed because the control process exited with error code.")
                return 1
    keep(unit, ActiveState="active", SubState="running", MainPID=child.pid)
    child.returncode = 0  # it lives on: no warning about it
    return 0


def stop(units):
    """`systemctl stop`: TERM, and KILL when TimeoutStopSec is over; returns when all are gone."""
    code = 0
    for unit in reversed(units):
        known = state(unit)
        file = unit_file(unit)
        if file is None and known["ActiveState"] == "inactive":
            complain(f"Failed to stop {unit}: Unit {unit} not loaded.")
            code = 5
            continue
        if known["MainPID"] and known["ActiveState"] == "active":
            deadline = time.monotonic() + float((HOME / "stop-timeout").read_text())
            os.kill(known["MainPID"], signal.SIGTERM)
            while alive(known["MainPID"]):
                if time.monotonic() > deadline:
                    os.kill(known["MainPID"], signal.SIGKILL)
                time.sleep(0.01)
        keep(unit)
    return code


def show(arguments):
    """`systemctl show`: known for every unit, with LoadState=not-found where there is no file."""
    if "--property=Version" in arguments:
        sys.stdout.write("Version=252\n")
        return 0
    blocks = []
    for unit in [one for one in arguments if not one.startswith("-")]:
        file = unit_file(unit)
        on_disk = (ETC / unit).read_text() if (ETC / unit).is_file() else None
        stale = file is not None and on_disk != (READ / unit).read_text()
        facts = {
            "Id": unit,
            "LoadState": "loaded" if file is not None else "not-found",
            "NeedDaemonReload": "yes" if stale else "no",
            **state(unit),
        }
        blocks.append("".join(f"{key}={value}\n" for key, value in facts.items()))
    sys.stdout.write("\n".join(blocks))
    return 0


def systemctl(arguments):
    """The verbs that iop uses."""
    verb, targets = arguments[0], arguments[1:]
    if verb == "show":
        return show(targets)
    if verb == "daemon-reload":
        READ.mkdir(exist_ok=True)
        for path in ETC.glob("iop-*"):
            (READ / path.name).write_text(path.read_text())
        return 0
    if verb == "enable":
        return 0
    if os.environ.get("FAKE_ROOT") != "1":
        complain("Failed to start: Interactive authentication required.")
        return 4
    if verb == "reset-failed":
        for unit in targets:
            if state(unit)["ActiveState"] == "failed":
                keep(unit)
            (HOME / f"{unit}.limit").unlink(missing_ok=True)
        return 0
    code = stop([one for one in targets if one != "--now"]) if verb != "start" else 0
    return code if verb in ("stop", "disable") else start(targets[0])


def sudo(arguments):
    """`sudo -n COMMAND`: refuses in sudo's words when `refuse-sudo` is there."""
    if (HOME / "refuse-sudo").exists():
        complain("sudo: a password is required")
        return 1
    return subprocess.run(arguments[1:], env={**os.environ, "FAKE_ROOT": "1"}, check=False).returncode


def journalctl(arguments):
    """`journalctl -u UNIT`: what the unit's programs said."""
    path = HOME / f"{arguments[arguments.index('-u') + 1]}.service.journal"
    sys.stdout.write(path.read_text() if path.is_file() else "")
    return 0


if __name__ == "__main__":
    with (HOME / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    sys.exit({"systemctl": systemctl, "sudo": sudo, "journalctl": journalctl}[sys.argv[1]](sys.argv[2:]))
