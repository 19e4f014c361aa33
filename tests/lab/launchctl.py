#!/usr/bin/python3
"""Stand-in for macOS's `launchctl` on the lab's mac: the system domain, strict, mapped onto transient systemd units.

It reads the real plist, keeps launchd's own rules, and answers with the real tool's exit codes: 113 for an unknown
label, 5 for a bootstrap of what is loaded or was there a moment ago, 37 for one that is still going, 36 for a bootout
that has only begun, 119 for a disabled label. A bootout is asynchronous: the label stays for a while after the process
has ended. A loaded job keeps the definition that it was loaded with, whatever happens to the file. Where launchd
ignores an unknown key, this refuses it. It proves playbooks, plists and drivers; it is not launchd: a job that ends is
started again `ThrottleInterval` after its end, not after its start.
"""

import json
import os
import plistlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

DAEMONS = Path("/Library/LaunchDaemons")
LOADED = Path("/run/lab-launchd")  # one file per loaded job; gone at a reboot, as launchd's own memory is
DISABLED = Path("/var/db/lab-launchd/disabled.json")
LINGER = 1.5  # seconds that a label stays after its process has ended
SETTLE = 0.5  # seconds after that in which a bootstrap still fails
KEYS = {
    "Label": str,
    "Program": str,
    "ProgramArguments": list,
    "UserName": str,
    "GroupName": str,
    "WorkingDirectory": str,
    "EnvironmentVariables": dict,
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "RunAtLoad": bool,
    "KeepAlive": (bool, dict),
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "SoftResourceLimits": dict,
    "HardResourceLimits": dict,
    "Umask": (int, str),
    "Nice": int,
    "Disabled": bool,
}
PROCESS_TYPES = {"Background", "Standard", "Adaptive", "Interactive"}
# launchd gives a daemon next to nothing: what systemd would add is taken away again
NOT_GIVEN = {"HOME", "SHELL", "LANG", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "NOTIFY_SOCKET"}
NOT_GIVEN |= {"MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}
WRONG_CLOCK = Path("/etc/ld.so.preload")  # `lab.sh clock` is at work, and has a variable of its own
# the job opens its logs as its own user; a folder that is missing or closed to it is EX_CONFIG
OPEN_LOGS = (
    'for f in "$0" "$1"; do { true >>"$f"; } 2>/dev/null || exit 78; done; exec >>"$0" 2>>"$1"; shift; exec "$@"'
)


class Refused(Exception):
    """The answer of the tool: an exit code and a line."""

    def __init__(self, code, line):
        super().__init__(line)
        self.code = code


def main(arguments):
    """One subcommand; its exit code."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    commands = {
        "bootstrap": bootstrap,
        "bootout": bootout,
        "kickstart": kickstart,
        "kill": kill,
        "print": show,
        "print-disabled": show_disabled,
        "enable": lambda words: set_disabled(words, value=False),
        "disable": lambda words: set_disabled(words, value=True),
        "load-at-boot": load_at_boot,
        "finish-bootout": finish_bootout,
    }
    try:
        return commands.get(command, lambda _: unknown(command))(rest)
    except Refused as answer:
        print(answer, file=sys.stderr)
        return answer.code


def unknown(command):
    """What has no place in the system domain any more, or never had."""
    if command in {"load", "unload", "start", "stop", "remove", "submit"}:
        raise Refused(64, f"{command}: legacy subcommand; use bootstrap, bootout or kickstart")
    raise Refused(64, f'Unrecognized subcommand "{command}"')


def bootstrap(words):
    """`bootstrap system PLIST…`: load, and start what says so."""
    if len(words) < 2:
        raise Refused(64, "Usage: launchctl bootstrap <domain-target> [service-path, service-path2, ...]")
    domain_only(words[0])
    as_root("Bootstrap failed: 5: Input/output error\nTry re-running the command as root for richer errors.", 5)
    for word in words[1:]:
        load(Path(word).absolute())
    return 0


def load(path):
    """Take one plist into the domain, and start it if it says so."""
    job = definition(path)
    label = job["Label"]
    record = LOADED / f"{label}.json"
    state = known(label)
    if state == "going":
        raise Refused(37, "Bootstrap failed: 37: Operation already in progress")
    if state in {"loaded", "settling"}:
        raise Refused(5, "Bootstrap failed: 5: Input/output error")
    if disabled().get(label, job.get("Disabled", False)):
        raise Refused(119, "Bootstrap failed: 119: Service is disabled")
    write(record, {"job": job, "path": str(path), "runs": 0})
    if job.get("RunAtLoad") or job.get("KeepAlive"):
        start(label)


def definition(path):
    """The plist, checked. Codes 2, 109 and 122 as launchd has them for no file, a bad one, a bad owner."""
    try:
        found = path.stat()
        job = plistlib.loads(path.read_bytes())
    except FileNotFoundError:
        raise Refused(2, f"Bootstrap failed: 2: No such file or directory: {path}") from None
    except (plistlib.InvalidFileException, ValueError, SyntaxError) as error:  # expat's error is a ValueError's sibling
        raise Refused(109, f"Bootstrap failed: 109: Invalid property list: {path}: {error}") from None
    if found.st_uid != 0 or found.st_mode & 0o022:
        raise Refused(122, f"{path}: Path had bad ownership/permissions\nBootstrap failed: 122")
    for fault in faults(job):
        raise Refused(109, f"Bootstrap failed: 109: Invalid property list: {path}: {fault}")
    return job


def faults(job):
    """What launchd would not take, or would take and then not do what was meant."""
    if not isinstance(job, dict):
        yield "not a dictionary"
        return
    for key, value in job.items():
        if key not in KEYS:
            yield f"unknown key {key}"
        elif not isinstance(value, KEYS[key]) or (isinstance(value, bool) and KEYS[key] is int):
            yield f"{key}: wrong type {type(value).__name__}"
    yield from faults_of_values(job)


def faults_of_values(job):
    """Values of the right type that still would not work."""
    words = job.get("ProgramArguments") or [job.get("Program")]
    if not re.fullmatch(r"[A-Za-z0-9._-]+", str(job.get("Label", ""))):
        yield "Label is missing or has odd characters"
    if not all(isinstance(word, str) for word in words):
        yield "Program or ProgramArguments is missing, or not all strings"
    elif not str(job.get("Program") or words[0]).startswith("/"):
        yield f"the program is no absolute path (neither ~ nor $VAR is expanded): {job.get('Program') or words[0]}"
    if any(not isinstance(value, str) for value in job.get("EnvironmentVariables", {}).values()):
        yield "EnvironmentVariables: values must be strings"
    if job.get("ProcessType", "Standard") not in PROCESS_TYPES:
        yield f"ProcessType: none of {', '.join(sorted(PROCESS_TYPES))}"
    if isinstance(job.get("KeepAlive"), dict) and set(job["KeepAlive"]) - {"SuccessfulExit", "Crashed"}:
        yield "KeepAlive: this stand-in knows SuccessfulExit and Crashed only"
    for key in ("SoftResourceLimits", "HardResourceLimits"):
        if set(job.get(key, {})) - {"NumberOfFiles"}:
            yield f"{key}: this stand-in knows NumberOfFiles only"


def start(label):
    """Spawn the job as a transient unit. A job that cannot be spawned stays loaded, as with launchd."""
    record = read(label)
    job = record["job"]
    write(LOADED / f"{label}.json", {**record, "runs": record["runs"] + 1})
    systemctl("reset-failed", unit(label))
    command = ["systemd-run", "--quiet", f"--unit={unit(label)}", *properties(job), "--", *words_of(job)]
    subprocess.run(command, check=False)


def words_of(job):
    """The command line; with log files, opened first by a shell that then becomes the program."""
    words = job.get("ProgramArguments") or [job["Program"]]
    if "Program" in job:
        words = [job["Program"], *words[1:]]
    out, err = job.get("StandardOutPath", "/dev/null"), job.get("StandardErrorPath", "/dev/null")
    return ["/bin/sh", "-c", OPEN_LOGS, out, err, *words]


def properties(job):
    """The unit's properties for the plist's keys."""
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **job.get("EnvironmentVariables", {})}
    taken = NOT_GIVEN if WRONG_CLOCK.exists() else NOT_GIVEN | {"FAKETIME_DONT_FAKE_MONOTONIC"}
    keep = job.get("KeepAlive", False)
    restart = "always" if keep is True else "no"
    if isinstance(keep, dict):
        restart = (
            "on-failure" if keep.get("SuccessfulExit") is False else "on-abnormal" if keep.get("Crashed") else "no"
        )
    found = {
        "Description": f"launchd job {job['Label']}",
        "User": job.get("UserName", "root"),
        "Restart": restart,
        "RestartForceExitStatus": "SIGTERM SIGINT SIGHUP SIGPIPE" if restart == "on-failure" else None,
        "RestartSec": job.get("ThrottleInterval", 10),
        "StartLimitIntervalSec": 0,
        "TimeoutStopSec": job.get("ExitTimeOut", 20),
        "KillMode": "mixed",
        "UnsetEnvironment": " ".join(sorted(taken - set(env))),
        "Group": job.get("GroupName"),
        "WorkingDirectory": job.get("WorkingDirectory", "/"),
        "Nice": job.get("Nice"),
        "UMask": umask(job.get("Umask")),
        "LimitNOFILE": limit(job),
    }
    lines = [f"--property={name}={value}" for name, value in found.items() if value is not None]
    return lines + [f"--setenv={name}={value}" for name, value in env.items()]


def umask(value):
    """An integer in a plist is decimal, a string octal; systemd wants octal."""
    return value if value is None or isinstance(value, str) else f"{value:04o}"


def limit(job):
    """Open files."""
    files = [job.get(key, {}).get("NumberOfFiles") for key in ("SoftResourceLimits", "HardResourceLimits")]
    files = [str(one) for one in files if one is not None]
    return ":".join(files) or None


def bootout(words):
    """`bootout system/LABEL` or `bootout system PLIST`: begins to end the job and returns."""
    if not words:
        raise Refused(64, "Usage: launchctl bootout <domain-target> [service-path] | <service-target>")
    by_path = words[0] == "system" and len(words) > 1
    label = definition(Path(words[1]))["Label"] if by_path else label_of(words[0])
    as_root("Boot-out failed: 1: Operation not permitted", 1)
    if known(label) != "loaded":
        raise Refused(3, "Boot-out failed: 3: No such process")
    write(LOADED / f"{label}.json", {**read(label), "going": True})
    # the rest goes on behind the tool's back; a process that does not end at once is told as 36
    finish = ["systemd-run", "--quiet", "--collect", sys.executable, __file__, "finish-bootout", label]
    subprocess.run(finish, check=True)
    time.sleep(0.2)
    if pid_of(label):
        raise Refused(36, "Boot-out failed: 36: Operation now in progress")
    return 0


def finish_bootout(words):
    """What launchd does after `bootout` has returned."""
    label = words[0]
    systemctl("stop", unit(label))
    systemctl("reset-failed", unit(label))
    time.sleep(LINGER)
    (LOADED / f"{label}.settling").touch()
    (LOADED / f"{label}.json").unlink()
    return 0


def kickstart(words):
    """`kickstart [-k] [-p] system/LABEL`: start; with -k end first what runs. The definition is the loaded one."""
    flags = {letter for word in words if word.startswith("-") for letter in word[1:]}
    targets = [word for word in words if not word.startswith("-")]
    if len(targets) != 1 or flags - set("kp"):
        raise Refused(64, "Usage: launchctl kickstart [-k] [-p] <service-target>")
    label = label_of(targets[0])
    loaded(label)
    as_root(f'Could not kickstart service "{label}": 1: Operation not permitted', 1)
    if "k" in flags or not pid_of(label):
        systemctl("stop", unit(label))
        start(label)
    if "p" in flags:
        print(f"service spawned with pid: {pid_of(label)}")
    return 0


def kill(words):
    """`kill SIGNAL system/LABEL`, the signal by name (with or without SIG) or number."""
    if len(words) != 2:
        raise Refused(64, "Usage: launchctl kill <signal-name|signal-number> <service-target>")
    label = label_of(words[1])
    loaded(label)
    as_root(f'Could not signal service "{label}": 1: Operation not permitted', 1)
    name = words[0] if words[0].isdecimal() else "SIG" + words[0].removeprefix("SIG")
    if not name.isdecimal() and name not in signal.Signals.__members__:
        raise Refused(64, f"Unknown signal {words[0]}")
    if not pid_of(label):
        raise Refused(3, "No process to signal.")
    systemctl("kill", "--kill-whom=main", f"--signal={name}", unit(label))
    return 0


def show(words):
    """`print system` or `print system/LABEL`; needs no root."""
    if words == ["system"]:
        labels = sorted(path.stem for path in LOADED.glob("*.json"))
        print("system = {\n\ttype = system\n\tservices = {")
        for label in labels:
            print(f"\t\t{pid_of(label) or 0:>8}      - \t{label}")
        print("\t}\n}")
        return 0
    label = label_of(words[0] if words else "")
    state = loaded(label)
    record, pid = read(label), pid_of(label)
    job = record["job"]
    last = systemctl("show", "-p", "ExecMainStatus", "--value", unit(label)).stdout.strip()
    print(f"system/{label} = {{\n\tactive count = {int(bool(pid))}\n\tpath = {record['path']}\n\ttype = LaunchDaemon")
    print(f"\tstate = {'SIGTERMed' if state == 'going' else 'running' if pid else 'not running'}\n")
    print(f"\tprogram = {job.get('Program') or job['ProgramArguments'][0]}\n\targuments = {{")
    for word in job.get("ProgramArguments", []):
        print(f"\t\t{word}")
    print(f"\t}}\n\n\tusername = {job.get('UserName', 'root')}\n\truns = {record['runs']}")
    print(f"\tpid = {pid}" if pid else f"\tlast exit code = {last or 0}")
    print("}")
    return 0


def show_disabled(words):
    """`print-disabled system`."""
    domain_only(words[0] if words else "")
    print("disabled services = {")
    for label, value in sorted(disabled().items()):
        print(f'\t"{label}" => {"disabled" if value else "enabled"}')
    print("}")
    return 0


def set_disabled(words, *, value):
    """`enable` and `disable system/LABEL`: kept over reboots, whether the job is known or not."""
    label = label_of(words[0] if words else "")
    as_root("Operation not permitted", 1)
    DISABLED.parent.mkdir(parents=True, exist_ok=True)
    write(DISABLED, {**disabled(), label: value})
    return 0


def load_at_boot(_words):
    """What launchd does by itself when the host boots."""
    for path in sorted(DAEMONS.glob("*.plist")):
        try:
            load(path)
        except Refused as answer:
            print(answer, file=sys.stderr)
    return 0


def loaded(label):
    """The state of a label that must be known: `loaded` or `going`. Raises 113."""
    state = known(label)
    if state not in {"loaded", "going"}:
        raise Refused(113, f'Bad request.\nCould not find service "{label}" in domain for system')
    return state


def known(label):
    """`loaded`, `going` (a bootout is under way), `settling` (its end was a moment ago), or None."""
    record = read(label)
    if record is not None:
        return "going" if record.get("going") else "loaded"
    try:
        age = time.time() - (LOADED / f"{label}.settling").stat().st_mtime
    except FileNotFoundError:
        return None
    return "settling" if age < SETTLE else None


def domain_only(word):
    """The system domain. 125: a login domain does not exist for who comes over ssh."""
    if word.split("/")[0] in {"gui", "user", "login", "session"}:
        raise Refused(125, f"Domain does not support specified action: {word}")
    if word != "system":
        raise Refused(64, f"Unrecognized target specifier: {word!r}")


def label_of(word):
    """LABEL of system/LABEL."""
    domain, _, label = word.partition("/")
    domain_only(domain)
    if not label or "/" in label:
        raise Refused(64, f"Unrecognized target specifier: {word!r}")
    return label


def as_root(line, code):
    """Only root changes the system domain."""
    if os.geteuid() != 0:
        raise Refused(code, line)


def unit(label):
    """The transient unit of a job."""
    return f"launchd-{label}.service"


def pid_of(label):
    """PID of the job's process, or None."""
    text = systemctl("show", "-p", "MainPID", "--value", unit(label)).stdout.strip()
    return text if text not in {"", "0"} else None


def systemctl(*words):
    """Ask or tell systemd."""
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)


def read(label):
    """A loaded job's record, or None."""
    try:
        return json.loads((LOADED / f"{label}.json").read_text())
    except FileNotFoundError:
        return None


def disabled():
    """Labels that `enable` or `disable` has ever named."""
    return json.loads(DISABLED.read_text()) if DISABLED.exists() else {}


def write(path, value):
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.replace(path)


if __name__ == "__main__":
    os.umask(0o022)  # launchd keeps its state itself: who called makes no difference to who may ask
    sys.exit(main(sys.argv[1:]))
