"""playbooks/guards/away.py: a host that ssh lost, in words (B67)."""

import configparser
import sys
from pathlib import Path

import pytest

PLAYBOOKS = str(Path(__file__).resolve().parents[3] / "playbooks")
SAID = "Data could not be sent to remote host. Make sure this host can be reached over ssh: "


def test_each_lost_host_is_named_with_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Address, reason and the ssh to try, by the environment's own ssh configuration; each host once."""
    monkeypatch.syspath_prepend(PLAYBOOKS)
    from guards.away import Away

    away = Away()
    facts = {
        "address": "10.77.0.12",
        "user": "lab",
        "ssh_config": "build/lab/ssh_config",
        "inventory_dir": "/w/inventory/lab",
    }
    assert away.text() == ""
    away.note("gx10", SAID + "connect to host 10.77.0.12 port 22: Connection refused", facts)
    away.note("gx10", "something later", facts)
    away.note("mac", SAID + "connect to host 192.168.1.5 port 22: Operation timed out", {"address": "192.168.1.5"})

    first, second, third, fourth = away.text().splitlines()
    assert first.startswith("no ssh server answers on gx10 (10.77.0.12)")
    assert second.startswith("  next: Start it")
    assert third.startswith("mac (192.168.1.5) cannot be reached")
    assert fourth.endswith("Try: ssh 192.168.1.5. Then run this again: it repairs what it finds")


def test_an_ansible_without_our_packages_says_it_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python may be another one than that of .venv."""
    monkeypatch.syspath_prepend(PLAYBOOKS)
    monkeypatch.setitem(sys.modules, "iop.admin.ssh_trouble", None)
    from guards.away import Away

    away = Away()
    away.note("gx10", "timed out", {})
    assert away.text().startswith("gx10 cannot be reached: timed out\n  next: bring it back")


def test_a_host_that_is_gone_is_noticed() -> None:
    """Ansible asks its ssh whether the host still lives; else a step on a lost host ends by the patience of TCP."""
    settings = configparser.ConfigParser()
    settings.read(Path(PLAYBOOKS).parent / "ansible.cfg", encoding="utf-8")
    words = settings["ssh_connection"]["ssh_args"].split()

    alive = dict(word.split("=") for word in words if word.startswith("ServerAlive"))
    assert 0 < int(alive["ServerAliveInterval"]) * int(alive["ServerAliveCountMax"]) <= 60
