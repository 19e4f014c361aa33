"""The lab itself: three real hosts, faults that do what they say, and nothing left behind."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import HOSTS, LAB, ROOT, SSH_CONFIG, Done, Lab

WAIT = 30  # seconds: for what a booting or restarting host does by itself
SAYS_ITS_NAME = """[Service]
ExecStart=/usr/bin/python3 -m http.server 8100 --directory /srv
Restart=always
RestartSec=100ms
[Install]
WantedBy=multi-user.target
"""


def _get(lab: Lab, host: str, port: int = 8100) -> Done:
    """What a neighbour of the host sees of its port within two seconds."""
    code = f"import urllib.request as u; print(u.urlopen('http://{lab.address(host)}:{port}/name', timeout=2).read())"
    return lab.exec(next(one for one in HOSTS if one != host), "python3", "-c", code)


def _until_served(lab: Lab, host: str) -> None:
    deadline = time.monotonic() + WAIT
    while (seen := _get(lab, host)).code != 0:
        assert time.monotonic() < deadline, seen.err


@pytest.fixture
def served(healed: Lab) -> Iterator[Lab]:
    """gx10 serves a file from its disk, as an enabled systemd unit."""
    unit = "/etc/systemd/system/name.service"
    install = f'printf %s "$1" >{unit} && hostname >/srv/name && systemctl enable --now --quiet name'
    done = healed.exec("gx10", "sh", "-c", install, "sh", SAYS_ITS_NAME)
    assert done.code == 0, done.err
    _until_served(healed, "gx10")
    yield healed
    healed.repair()
    remove = (
        f"systemctl disable --now --quiet name; rm -f {unit} /srv/name /srv/kept /srv/more; systemctl daemon-reload"
    )
    assert healed.exec("gx10", "sh", "-c", remove).code == 0


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_a_booted_system_of_its_own(lab: Lab, host: str) -> None:
    """Its PID 1 is systemd, it knows its name, its disk holds /srv, and root is had by sudo only."""
    seen = lab.ssh(
        host, "cat /proc/1/comm; hostname; findmnt -n -o TARGET /srv; id -un; sudo -n id -un; id iop 2>&1 | wc -l"
    )

    assert seen.out.split() == ["systemd", host, "/srv", "lab", "root", "1"], seen.err


def test_the_ssh_config_works_from_any_folder(lab: Lab, tmp_path: Path) -> None:
    """It names its files by absolute paths; the relative path of the checkout does as well."""
    for folder, config in ((ROOT, "build/lab/ssh_config"), (tmp_path, str(SSH_CONFIG))):
        command = ["ssh", "-F", config, "mac", "hostname"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, "mac\n"), done.stderr


def test_a_wrong_host_key_is_refused(lab: Lab, tmp_path: Path) -> None:
    """A host that shows another key than the one made for it is not spoken to."""
    known = (ROOT / "build/lab/known_hosts").read_text(encoding="ascii").splitlines()
    keys = {line.split()[0].split(",")[1]: line.split()[2] for line in known if "," in line}
    wrong = tmp_path / "known_hosts"
    wrong.write_text(f"{lab.address('gx10')} ssh-ed25519 {keys['mac']}\n", encoding="ascii")

    done = lab.ssh("-oUserKnownHostsFile=" + str(wrong), "gx10", "true")

    assert done.code == 255
    assert "verification failed" in done.err


def test_ansible_reaches_the_hosts_by_the_inventory(lab: Lab) -> None:
    """The literals of inventory/lab are enough: address, account, interpreter, ssh_config."""
    ansible = Path(sys.executable).parent / "ansible"
    command = [str(ansible), "-i", "inventory/lab", "nodes", "-m", "ansible.builtin.ping", "-o"]
    env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}

    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)

    assert done.stdout.count("SUCCESS") == 3, done.stdout + done.stderr


def test_a_stream_passes_through_the_relay(lab: Lab) -> None:
    """`lab.sh connect` copies both ways, to the end of each: an sshd greets, and takes what it is told."""
    command = [LAB, "connect", "gx10", "22"]
    done = subprocess.run(command, input=b"nonsense\r\n\r\n", capture_output=True, timeout=30, check=False)

    assert done.stdout.startswith(b"SSH-2.0-OpenSSH")
    assert b"Invalid SSH identification string" in done.stdout


def test_cut_and_restore(served: Lab) -> None:
    """A host that is cut off times out for its neighbours, and answers again once its cable is back."""
    served.cut("gx10")
    cut = _get(served, "gx10")
    served.restore("gx10")

    assert "timed out" in cut.err
    _until_served(served, "gx10")


def test_freeze_and_thaw(served: Lab) -> None:
    """A frozen host says nothing, its state is told, and it goes on where it stood."""
    before = served.exec("gx10", "systemctl", "show", "-p", "MainPID", "name").out
    served.freeze("gx10")
    frozen, state = _get(served, "gx10"), served.status()["gx10"]
    served.thaw("gx10")

    assert "timed out" in frozen.err
    assert state.startswith("frozen")
    _until_served(served, "gx10")
    assert served.exec("gx10", "systemctl", "show", "-p", "MainPID", "name").out == before


def test_reset_loss_and_heal(served: Lab) -> None:
    """One port resets while ssh works; with every packet lost nothing does; healed, all is as before."""
    served.reset("gx10", 8100)
    assert "refused" in _get(served, "gx10").err
    assert served.ssh("gx10", "true").code == 0
    served.loss("gx10", 100)
    assert "timed out" in _get(served, "gx10").err
    served.heal("gx10")

    _until_served(served, "gx10")


def test_crash_and_boot(served: Lab) -> None:
    """After a power loss neighbours time out; powered on, the host serves again what was on its disk, by itself."""
    assert served.exec("gx10", "sh", "-c", "echo kept >/srv/kept && sync").code == 0
    served.crash("gx10")
    gone, state, entered = _get(served, "gx10"), served.status()["gx10"], served.exec("gx10", "true")
    served.boot("gx10")

    assert "timed out" in gone.err
    assert state.startswith("off")
    assert "lab.sh boot gx10" in entered.err
    _until_served(served, "gx10")
    assert served.ssh("gx10", "cat /srv/kept").out == "kept\n"


def test_a_reboot_from_inside(served: Lab) -> None:
    """`sudo reboot` is a reboot: a new boot id, and the enabled unit serves."""
    boot = "cat /proc/sys/kernel/random/boot_id /proc/1/stat | cut -d' ' -f1,22"
    before = served.ssh("gx10", boot).out
    served.ssh("gx10", "sudo reboot")
    deadline = time.monotonic() + WAIT
    while (now := served.ssh("gx10", boot)).code != 0 or now.out == before:
        assert time.monotonic() < deadline, now

    _until_served(served, "gx10")


def test_fill_and_unfill(served: Lab) -> None:
    """A full disk takes nothing more and loses nothing; the rest of the host has room."""
    served.fill("gx10")
    full = served.ssh("gx10", "sudo sh -c 'echo more >/srv/more'; echo elsewhere >~/elsewhere && cat /srv/name")
    served.unfill("gx10")

    assert full.out == "gx10\n"
    assert full.err
    assert served.ssh("gx10", "sudo sh -c 'echo more >/srv/more' && cat /srv/more").out == "more\n"


def test_clock(served: Lab) -> None:
    """The time of day is two hours ahead for what starts now, in a service too; the monotonic clock is not."""
    ask = "import time; print(round((time.time() - {now}) / 3600), round((time.monotonic() - {mono}) / 3600))"
    code = ask.format(now=time.time(), mono=time.monotonic())
    run = [
        "systemd-run",
        "--quiet",
        "--pipe",
        "--wait",
        "-p",
        "User=lab",
        "-p",
        "ProtectSystem=strict",
        "python3",
        "-c",
        code,
    ]
    served.clock("gx10", "+2h")
    off = served.ssh("gx10", f'python3 -c "{code}"').out, served.exec("gx10", *run).out
    served.clock("gx10", "0")

    assert off == ("2 0\n", "2 0\n")
    assert served.exec("gx10", *run).out == "0 0\n"


def test_unknown_hosts_and_commands_are_named() -> None:
    """Exit code 2, with what there is."""
    wrong = subprocess.run([LAB, "cut", "moon"], capture_output=True, text=True, timeout=30, check=False)
    none = subprocess.run([LAB, "explode"], capture_output=True, text=True, timeout=30, check=False)

    assert (wrong.returncode, none.returncode) == (2, 2)
    assert "no host moon (there are: mac gx10 onexplayer)" in wrong.stderr
    assert "lab.sh up" in none.stderr


def test_without_root_it_says_so() -> None:
    """Exit code 3 and one sentence where the machine cannot carry a lab."""
    command = ["setpriv", "--reuid=65534", "--clear-groups", LAB, "up"]
    if os.geteuid() != 0:
        command = [LAB, "up"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 3
    assert done.stderr == "lab: cannot run on this machine: it needs root (sudo tests/lab/lab.sh up)\n"
