"""The stand-in for launchctl: as strict and as asynchronous as the real tool, so that a naive driver fails on it."""

import plistlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.lab import Done, Lab

LABEL = "iop-lab-test"
PLIST = f"/Library/LaunchDaemons/{LABEL}.plist"
TARGET = f"system/{LABEL}"
WAIT = 20
JOB: dict[str, Any] = {
    "Label": LABEL,
    "ProgramArguments": ["/bin/sleep", "1000"],
    "UserName": "lab",
    "RunAtLoad": True,
    "KeepAlive": True,
    "ThrottleInterval": 1,
    "ProcessType": "Interactive",
}
TELLS = "env | grep -v ^PWD= | sort; id -un; umask; echo on the other >&2; exec sleep 1000"


class Mac:
    """The mac host as a driver sees it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def launchctl(self, *words: str, root: bool = True) -> Done:
        """The tool, as root or as the account `lab`."""
        return self.lab.exec("mac", *([] if root else ["runuser", "-u", "lab", "--"]), "launchctl", *words)

    def put(self, job: dict[str, Any] | bytes, path: str = PLIST) -> None:
        """Write a plist as root, mode 0644."""
        text = job if isinstance(job, bytes) else plistlib.dumps(job)
        done = self.lab.exec("mac", "sh", "-c", f"cat >{path} <<'END'\n{text.decode()}\nEND\nchmod 644 {path}")
        assert done.code == 0, done.err

    def load(self, job: dict[str, Any]) -> Done:
        """Put and bootstrap."""
        self.put(job)
        return self.launchctl("bootstrap", "system", PLIST)

    def print(self) -> str:
        """What `print` says of the job; needs no root."""
        return self.launchctl("print", TARGET, root=False).out

    def pid(self) -> str | None:
        """The job's process."""
        lines = [line.split("= ")[1] for line in self.print().splitlines() if line.startswith("\tpid = ")]
        return lines[0] if lines else None

    def remove(self) -> None:
        """No job, no plist, no override."""
        gone = f"launchctl bootout {TARGET}; while launchctl print {TARGET}; do sleep 0.1; done"
        clean = f"launchctl enable {TARGET}; rm -rf {PLIST} /home/lab/job.* /run/lab-launchd/{LABEL}.settling"
        assert self.lab.exec("mac", "sh", "-c", f"{gone}; {clean}").code == 0


@pytest.fixture
def mac(lab: Lab) -> Iterator[Mac]:
    """The mac host without a job of ours, before and after."""
    host = Mac(lab)
    host.remove()
    yield host
    host.remove()


def test_bootstrap_starts_the_job_as_its_user(mac: Mac) -> None:
    """It runs with what the plist says and next to nothing else in its environment."""
    wanted = {
        **JOB,
        "ProgramArguments": ["/bin/sh", "-c", TELLS],
        "EnvironmentVariables": {"GREETING": "two words"},
        "Umask": 0o027,
        "StandardOutPath": "/home/lab/job.out",
        "StandardErrorPath": "/home/lab/job.err",
    }
    assert mac.load(wanted).code == 0

    deadline = time.monotonic() + WAIT
    while "on the other" not in mac.lab.ssh("mac", "cat job.err").out:
        assert time.monotonic() < deadline, mac.print()
    out = mac.lab.ssh("mac", "cat job.out; stat -c %U job.out").out
    path = "PATH=/usr/bin:/bin:/usr/sbin:/sbin"
    assert out.splitlines() == ["GREETING=two words", "LOGNAME=lab", path, "USER=lab", "lab", "0027", "lab"]
    assert f"path = {PLIST}" in mac.print()
    assert "state = running" in mac.print()


def test_only_root_changes_the_system_domain(mac: Mac) -> None:
    """Without sudo: 5 for bootstrap, 1 for the others; print is free."""
    assert mac.load(JOB).code == 0
    codes = {
        word: mac.launchctl(word, TARGET, root=False).code for word in ("bootout", "kickstart", "print", "disable")
    }

    assert codes == {"bootout": 1, "kickstart": 1, "print": 0, "disable": 1}
    assert mac.launchctl("bootstrap", "system", PLIST, root=False).code == 5


def test_unknown_labels_domains_and_old_words(mac: Mac) -> None:
    """113 to print and kickstart, 3 to bootout, 125 for a login domain, 64 for the legacy subcommands."""
    assert mac.launchctl("print", TARGET).code == 113
    assert f'Could not find service "{LABEL}"' in mac.launchctl("print", TARGET).err
    assert mac.launchctl("kickstart", "-k", TARGET).code == 113
    assert mac.launchctl("bootout", TARGET).code == 3
    assert mac.launchctl("bootstrap", "gui/501", PLIST).code == 125
    assert mac.launchctl("load", "-w", PLIST).code == 64


def test_a_second_bootstrap_is_an_error(mac: Mac) -> None:
    """5, and the running job is left alone."""
    assert mac.load(JOB).code == 0
    pid = mac.pid()

    assert mac.launchctl("bootstrap", "system", PLIST).code == 5
    assert mac.pid() == pid is not None


def test_bootout_is_asynchronous(mac: Mac) -> None:
    """The label outlives the call: 37 while it goes, 5 just after, and only then may it come again."""
    slow = ["/bin/sh", "-c", "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"]
    assert mac.load({**JOB, "ProgramArguments": slow}).code == 0
    begun = mac.launchctl("bootout", TARGET)
    again = mac.launchctl("bootstrap", "system", PLIST)

    assert (begun.code, again.code) == (36, 37)
    deadline = time.monotonic() + WAIT
    codes = []
    while not codes or codes[-1] != 0:
        codes.append(mac.launchctl("bootstrap", "system", PLIST).code)
        assert time.monotonic() < deadline, codes
    assert set(codes) <= {37, 5, 0}
    assert mac.pid() is not None


def test_a_kickstart_keeps_the_loaded_definition(mac: Mac) -> None:
    """-k gives a new process; a changed file is not seen before the next bootstrap. Without -k nothing happens."""
    assert mac.load(JOB).code == 0
    first = mac.pid()
    assert mac.launchctl("kickstart", TARGET).code == 0
    assert mac.pid() == first
    mac.put({**JOB, "ProgramArguments": ["/bin/sleep", "2000"]})
    assert mac.launchctl("kickstart", "-k", TARGET).code == 0

    assert mac.pid() not in {first, None}
    assert "\t\t1000" in mac.print()


def test_keep_alive_starts_it_again(mac: Mac) -> None:
    """KeepAlive true: after a kill it runs again, whoever killed it."""
    assert mac.load(JOB).code == 0
    first = mac.pid()
    assert mac.launchctl("kill", "SIGKILL", TARGET).code == 0

    deadline = time.monotonic() + WAIT
    while mac.pid() in {first, None}:
        assert time.monotonic() < deadline, mac.print()


def test_a_job_that_ended_well_stays_loaded(mac: Mac) -> None:
    """SuccessfulExit false: exit 0 is the end, the label is known, and its exit code told."""
    assert mac.load({**JOB, "KeepAlive": {"SuccessfulExit": False}, "ProgramArguments": ["/bin/true"]}).code == 0

    deadline = time.monotonic() + WAIT
    while "state = not running" not in mac.print():
        assert time.monotonic() < deadline, mac.print()
    assert "last exit code = 0" in mac.print()


def test_logs_in_a_folder_that_is_missing(mac: Mac) -> None:
    """The job is loaded and never runs, with 78: the mistake that a driver must see in `print`."""
    nowhere = {"StandardOutPath": "/home/lab/job.none/out", "StandardErrorPath": "/home/lab/job.none/err"}
    assert mac.load({**JOB, "KeepAlive": False, **nowhere}).code == 0

    deadline = time.monotonic() + WAIT
    while "last exit code = 78" not in mac.print():
        assert time.monotonic() < deadline, mac.print()


def test_disabled_labels(mac: Mac) -> None:
    """119 until it is enabled; print-disabled tells."""
    mac.put(JOB)
    assert mac.launchctl("disable", TARGET).code == 0
    assert mac.launchctl("bootstrap", "system", PLIST).code == 119
    assert f'"{LABEL}" => disabled' in mac.launchctl("print-disabled", "system", root=False).out
    assert mac.launchctl("enable", TARGET).code == 0

    assert mac.launchctl("bootstrap", "system", PLIST).code == 0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"KeepAlife": True}, "unknown key KeepAlife"),
        ({"RunAtLoad": "yes"}, "RunAtLoad: wrong type str"),
        ({"ThrottleInterval": True}, "ThrottleInterval: wrong type bool"),
        ({"ProgramArguments": ["~/bin/node"]}, "no absolute path"),
        ({"ProgramArguments": [1]}, "not all strings"),
        ({"ProcessType": "Fast"}, "ProcessType"),
        ({"EnvironmentVariables": {"N": 1}}, "must be strings"),
    ],
)
def test_a_plist_that_launchd_would_not_do(mac: Mac, change: dict[str, Any], word: str) -> None:
    """109, with what is wrong."""
    refused = mac.load({**JOB, **change})

    assert (refused.code, word in refused.err) == (109, True), refused.err


def test_a_file_that_is_none_of_its_business(mac: Mac) -> None:
    """2 for none, 109 for no plist, 122 for one that others may write."""
    assert mac.launchctl("bootstrap", "system", PLIST).code == 2
    mac.put(b"<plist><dict><key>Label</key></dict></plist>")
    assert mac.launchctl("bootstrap", "system", PLIST).code == 109
    mac.put(JOB)
    assert mac.lab.exec("mac", "chmod", "666", PLIST).code == 0

    assert mac.launchctl("bootstrap", "system", PLIST).code == 122


def test_the_host_loads_its_daemons_at_boot(mac: Mac) -> None:
    """A plist in /Library/LaunchDaemons runs after a power loss, without anyone's help."""
    mac.put(JOB)
    mac.lab.exec("mac", "sync")
    mac.lab.crash("mac")
    mac.lab.boot("mac")

    assert mac.pid() is not None
