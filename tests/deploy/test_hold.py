"""playbooks/roles/iop/tasks/hold.yml over a helper that refuses: what an operator is told."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOSTS = "all: {children: {nodes: {hosts: {a: , b: , c: }}}, vars: {ansible_connection: local}}\n"
PLAY = """
- hosts: nodes
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Hold
      ansible.builtin.include_tasks: %s
      vars:
        iop_alone: %s
        iop_helper: [sh, %s, "{{ inventory_hostname }}"]
        iop_hold: [hold]
        iop_host: {root: /srv/iop}
        iop_environment: {}
        iop_env: {hosts: [{name: a, here: true}]}
        groups: {edge: [a]}
    - name: Later
      ansible.builtin.debug: {msg: went on}
"""
HELPER = "[ $1 = a ] || { echo 'error: ben is at work on this host' >&2; exit 1; }\n"


@pytest.mark.parametrize(("alone", "failures"), [("false", 1), ("true", 2)])
def test_a_refusal_of_a_whole_run_is_told_once(tmp_path: Path, alone: str, failures: int) -> None:
    """With the hosts that are held, and nothing goes on; where each host is dealt with for itself, each is told."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    (tmp_path / "helper.sh").write_text(HELPER, encoding="utf-8")
    hold = ROOT / "playbooks" / "roles" / "iop" / "tasks" / "hold.yml"
    (tmp_path / "play.yml").write_text(PLAY % (hold, alone, tmp_path / "helper.sh"), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", str(tmp_path / "inventory"), str(tmp_path / "play.yml")],
        env={
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "LC_ALL": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    assert told.count("fatal: [") == failures, told
    assert "went on" not in told
    assert "ben is at work on this host" in told
    assert alone == "true" or "b, c: ben is at work" in told
