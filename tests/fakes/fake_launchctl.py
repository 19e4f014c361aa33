"""launchctl and sudo as programs on PATH: real processes, the real tool's exit codes, and its delays.

`FAKE_LAUNCHD` names the state's folder. A bootout only begins: the label stays for `LINGER` seconds after its program
has gone, and then `SETTLE` bootstraps are refused with 5 although `print` says 113. A loaded job keeps the definition
that it was loaded with. Files steer it: `refuse-sudo`, `refuse-bootstrap` (a word that the refused plist
holds), `disabled` (labels). `calls` has every call of sudo. A program that ends is not started again.
"""

import json
import os
import plistlib
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ["FAKE_LAUNCHD"])
LINGER, SETTLE = 0.3, 2
KEYS = {
    "Label", "ProgramArguments", "UserName", "WorkingDirectory", "EnvironmentVariables", "RunAtLoad", "KeepAlive",
    "ThrottleInterval", "ExitTimeOut", "ProcessType", "SoftResourceLimits", "Umask", "StandardOutPath",
    "StandardErrorPath",
}  # fmt: skip


def refuse(code, text):
    """End with this code and line."""
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


def record(label):
    """Where a job's state is kept."""
    return HOME / f"{label}.json"


def keep(label, **facts):
    """Write a job's state, whole."""
    fresh = record(label).with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(facts))
    fresh.replace(record(label))


def alive(pid):
    """True while the process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def look(label):
    """The loaded job, None when there is none; what launchd does behind the tool's back is done now."""
    if not record(label).is_file():
        return None
    job = json.loads(record(label).read_text())
    end = HOME / f"{label}.end"
    whose, code = json.loads(end.read_text()) if end.is_file() else (None, None)
    job["end"] = code if whose == job["last"] else None  # the runner of the program before may be late
    job["pid"] = job["last"] if job["last"] and alive(job["last"]) and job["end"] is None else None
    if "going" in job:
        age = time.time() - job["going"]
        if job["pid"] and age > job["plist"]["ExitTimeOut"]:
            os.kill(job["pid"], signal.SIGKILL)
        if not job["pid"] and "gone" not in job:
            job["gone"] = time.time()
            keep(label, **job)
        if "gone" in job and time.time() - job["gone"] > LINGER:
            record(label).unlink()
            (HOME / f"{label}.settling").write_text(str(SETTLE))
            return None
    return job


def label_of(words):
    """The label of `system/LABEL`."""
    domain, _, label = words[-1].partition("/") if words else ("", "", "")
    return label if domain == "system" and label else refuse(64, "Usage: launchctl … <service-target>")


def loaded(words):
    """The label and its job; 113 when it is not loaded."""
    label = label_of(words)
    job = look(label)
    return (label, job) if job else refuse(113, f'Could not find service "{label}" in domain for system')


def root(code, text):
    """Only root may do this."""
    if os.environ.get("FAKE_ROOT") != "1":
        refuse(code, text)


def spawn(label, job):
    """Start the job's program under a runner that notes how it ends."""
    runner = [sys.executable, "-S", "-E", __file__, "runner", label]
    with subprocess.Popen(
        runner, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        pid = int(child.stdout.readline())
        keep(label, **{**job, "last": pid, "runs": job["runs"] + 1})
        os._exit(0)  # the runner lives on


def runner(words):
    """Run the job with its own environment alone; its end is noted."""
    label = words[0]
    plist = json.loads(record(label).read_text())["plist"]
    with Path(plist["StandardOutPath"]).open("ab") as out:
        child = subprocess.Popen(
            plist["ProgramArguments"],
            cwd=plist["WorkingDirectory"],
            env=plist["EnvironmentVariables"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    os.close(1)
    code = child.wait()
    fresh = HOME / f"{label}.end-{os.getpid()}"
    fresh.write_text(json.dumps([child.pid, code]))
    fresh.replace(HOME / f"{label}.end")


def bootstrap(words):
    """`bootstrap system PLIST`."""
    if len(words) != 2 or words[0] != "system":
        refuse(64, "Usage: launchctl bootstrap <domain-target> [service-path]")
    root(5, "Bootstrap failed: 5: Input/output error\nTry re-running the command as root for richer errors.")
    path = HOME / "root" / words[1].lstrip("/")
    if not path.is_file():
        refuse(2, f"Bootstrap failed: 2: No such file or directory: {path}")
    plist = plistlib.loads(path.read_bytes())
    if set(plist) - KEYS:
        refuse(109, f"Bootstrap failed: 109: Invalid property list: {sorted(set(plist) - KEYS)}")
    label = plist["Label"]
    bad = HOME / "refuse-bootstrap"
    if bad.is_file() and bad.read_text() in path.read_text():
        refuse(109, "Bootstrap failed: 109: Invalid property list")
    job = look(label)
    if job:
        refuse(37 if "going" in job else 5, "Bootstrap failed: still there")
    settling = HOME / f"{label}.settling"
    left = int(settling.read_text()) if settling.is_file() else 0
    if left:
        settling.write_text(str(left - 1))
        refuse(5, "Bootstrap failed: 5: Input/output error")
    if label in disabled():
        refuse(119, "Bootstrap failed: 119: Service is disabled")
    keep(label, plist=plist, last=None, runs=0)
    (HOME / f"{label}.end").unlink(missing_ok=True)
    spawn(label, look(label))


def bootout(words):
    """`bootout system/LABEL`: begins."""
    label = label_of(words)
    root(1, "Boot-out failed: 1: Operation not permitted")
    job = look(label)
    if job is None or "going" in job:
        refuse(3, "Boot-out failed: 3: No such process")
    keep(label, **{**job, "going": time.time()})
    if job["pid"]:
        os.kill(job["pid"], signal.SIGTERM)
        refuse(36, "Boot-out failed: 36: Operation now in progress")


def kickstart(words):
    """`kickstart [-k] system/LABEL`."""
    label, job = loaded(words)
    root(1, f'Could not kickstart service "{label}": 1: Operation not permitted')
    if job["pid"] and "-k" not in words:
        return
    deadline = time.time() + job["plist"]["ExitTimeOut"]
    number = signal.SIGTERM
    while job["pid"] and alive(job["pid"]):
        os.kill(job["pid"], number)
        number = signal.SIGKILL if time.time() > deadline else 0
        time.sleep(0.02)
    spawn(label, look(label))


def kill(words):
    """`kill SIGNAL system/LABEL`."""
    label, job = loaded(words)
    root(1, f'Could not signal service "{label}": 1: Operation not permitted')
    if not job["pid"]:
        refuse(3, "No process to signal.")
    os.kill(job["pid"], getattr(signal, words[0]))


def show(words):
    """`print system/LABEL`."""
    if words == ["system"]:
        return
    label, job = loaded(words)
    state = "SIGTERMed" if "going" in job else "running" if job["pid"] else "not running"
    lines = [f"system/{label} = {{", f"\tstate = {state}", f"\truns = {job['runs']}"]
    lines += [f"\tpid = {job['pid']}"] if job["pid"] else []
    end = job["end"]
    lines += [
        f"\tlast terminating signal = Killed: {-end}" if end is not None and end < 0 else f"\tlast exit code = {end}"
    ]
    sys.stdout.write("\n".join([*lines, "}"]).replace("code = None", "code = (never exited)") + "\n")


def disabled():
    """Labels that somebody disabled."""
    path = HOME / "disabled"
    return path.read_text().split() if path.is_file() else []


def show_disabled(_words):
    """`print-disabled system`."""
    lines = "".join(f'\t"{label}" => disabled\n' for label in disabled())
    sys.stdout.write(f"disabled services = {{\n{lines}}}\n")


def enable(words):
    """`enable system/LABEL`."""
    root(1, "Operation not permitted")
    (HOME / "disabled").write_text(" ".join(one for one in disabled() if one != label_of(words)))


def sudo(words):
    """`sudo -n COMMAND`."""
    with (HOME / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    if (HOME / "refuse-sudo").exists():
        refuse(1, "sudo: a password is required")
    sys.exit(subprocess.run(words[1:], env={**os.environ, "FAKE_ROOT": "1"}, check=False).returncode)


def launchctl(words):
    """The subcommands that iop uses."""
    verbs = {"bootstrap": bootstrap, "bootout": bootout, "kickstart": kickstart, "kill": kill, "enable": enable}
    {**verbs, "print": show, "print-disabled": show_disabled}[words[0]](words[1:])


if __name__ == "__main__":
    {"launchctl": launchctl, "sudo": sudo, "runner": runner}[sys.argv[1]](sys.argv[2:])
