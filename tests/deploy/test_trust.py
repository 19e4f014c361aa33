"""The role that gives hosts what they need to trust each other, run by Ansible on three folders of this machine."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from iop.commands.inventory import derived
from iop.config.inventory import parse
from iop.config.load import load_edge, load_node

ROOT = Path(__file__).resolve().parents[2]
MANAGERS = {"gx10": "systemd", "onexplayer": "supervisor", "mac": "launchd"}
#: stands in front of the release helper and keeps what every process of the machine could see of it
RECORDER = """
import json, os, runpy, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv, dict(os.environ)]) + "\\n")
sys.path.insert(0, {runtime!r})
runpy.run_module("iop_release", run_name="__main__")
"""
PLAYBOOK = """
- name: Trust
  hosts: nodes
  gather_facts: false
  any_errors_fatal: true
  vars: {vars}
  tasks:
    - name: Make
      ansible.builtin.include_role: {{name: trust, tasks_from: make}}
    - name: Check the config of the Edge
      ansible.builtin.include_role: {{name: preflight, tasks_from: config}}
      vars: {{preflight_overwrite_config: false}}
      when: inventory_hostname == 'mac'
    - name: Put
      ansible.builtin.include_role: {{name: trust}}
    - name: Config of the node
      plain_command:
        argv: "{{{{ iop_put + ['--path', iop_host.root ~ '/shared/node.yaml'] }}}}"
        stdin: "{{{{ lookup('ansible.builtin.template', '{root}/playbooks/roles/nodes/templates/node.yaml.j2') }}}}"
      register: node
      changed_when: (node.stdout | from_json).changed
      check_mode: false
    - name: What a change of asks for a restart
      plain_command:
        argv: "{{{{ iop_put + ['--path', iop_host.root ~ '/watch.json'] }}}}"
        stdin: "{{{{ trust_watch | combine({{'admin': trust_admin_file}}) | to_json }}}}"
      changed_when: false
      check_mode: false
"""


@dataclass(frozen=True)
class Run:
    """One run of the playbook."""

    code: int
    text: str

    @property
    def changed(self) -> dict[str, int]:
        """How many tasks changed something, by host."""
        return {
            host: int(count) for host, count in re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", self.text, re.MULTILINE)
        }


class Site:
    """A checkout of nothing but an inventory; `hosts/<name>` are the hosts' folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trust = folder / "build" / "trial-runtime" / "trust"
        self.log = folder / "seen.jsonl"
        for name in ("home", "inventory/trial"):
            (folder / name).mkdir(parents=True)
        inventory = {
            "all": {
                "vars": {
                    "deploy_env": "trial",
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                },
                "children": {
                    "nodes": {"hosts": dict.fromkeys(MANAGERS)},
                    **{group: {"hosts": {"mac": None}} for group in ("edge", "control_plane")},
                },
            }
        }
        (folder / "inventory" / "trial" / "hosts.yml").write_text(yaml.safe_dump(inventory))
        (folder / "recorder.py").write_text(RECORDER.format(log=str(self.log), runtime=str(ROOT / "runtime")))
        (folder / "trust.yml").write_text(PLAYBOOK.format(vars=json.dumps(self._vars()), root=ROOT))

    def run(self, *options: str) -> Run:
        """Run the playbook as verbose as a person would in despair, with --diff."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "ANSIBLE"))
        }
        env = {
            **kept,
            "HOME": str(self.folder / "home"),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "LC_ALL": "C.UTF-8",
        }
        command = [sys.executable, "-m", "ansible", "playbook", "-i", str(self.folder / "inventory" / "trial")]
        done = subprocess.run(
            [*command, str(self.folder / "trust.yml"), "-vvv", "--diff", *options],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    def tokens(self, host: str) -> dict[str, str]:
        """The files of a host's shared/tokens."""
        return {path.name: path.read_text() for path in (self.folder / "hosts" / host / "shared" / "tokens").iterdir()}

    def secrets(self) -> list[str]:
        """Every secret of the environment: tokens, and the lines of private keys."""
        found = [path.read_text().strip() for path in self.trust.glob("*.token")]
        for path in self.trust.glob("*.key"):
            body = path.read_text().split("PRIVATE KEY-----")[1].strip().splitlines()
            found += [line for line in body if not line.startswith("-")]
        return found

    def leaks(self, text: str) -> list[str]:
        """Where a secret stands that has no business there: in this text, or in a file of the site."""
        secrets = self.secrets()
        assert len(secrets) >= 4 + 2
        found = ["what was printed"] if any(secret in text for secret in secrets) else []
        for path in self.folder.rglob("*"):
            if path.is_file() and path.parent != self.trust and path.parent.name != "tokens":
                content = path.read_bytes().decode("utf-8", "replace")
                found += [str(path) for secret in secrets if secret in content]
        return found

    def _vars(self) -> dict[str, Any]:
        env = self._environment()
        helper = [sys.executable, str(self.folder / "recorder.py")]
        here = {"PYTHONPATH": str(ROOT / "runtime")}
        told = "(['--diff'] if ansible_diff_mode else []) + (['--dry-run'] if ansible_check_mode else [])"
        return {
            "iop_env": env,
            "iop_host": "{{ iop_env.hosts | selectattr('name', 'equalto', inventory_hostname) | first }}",
            "iop_build": str(self.folder / "build" / "trial-runtime"),
            "iop_edge_home": env["edge_home"],
            "iop_local_environment": here,
            "iop_environment": {},
            "iop_helper": helper,
            "iop_local_helper": helper,
            "iop_put": "{{ iop_helper + ['put', '--json'] + " + told + " }}",
            "iop_engine_model": "",
            "engine_kind": "simulator",
        }

    def _environment(self) -> dict[str, Any]:
        shared: dict[str, Any] = {
            "deploy_env": "trial",
            "edge_id": "edge-trial",
            "ports": {"control": 1, "openai": 2, "nodes": 3, "admin": 4},
            "models": [{"id": "m", "providers": {f"{name}-engine": "simulated" for name in MANAGERS}}],
            "smoke_model": "m",
            "engine_kind": "simulator",
            "node_platform": "linux",
            "node_arch": "x86_64",
            "python": sys.executable,
            "user": "nobody",
        }
        hosts = {
            name: {
                **shared,
                "node_id": f"{name}-node",
                "node_alias": name,
                "service_manager": manager,
                "address": f"10.77.0.{number}",
                "edge_address": "127.0.0.1" if name == "mac" else "10.77.0.13",
                "host_root": str(self.folder / "hosts" / name),
                "providers": [
                    {
                        "id": f"{name}-engine",
                        "type": "other",
                        "category": "local_inference",
                        "capacity": 1,
                        "engine_port": 9,
                    }
                ],
            }
            for number, (name, manager) in enumerate(MANAGERS.items(), 11)
        }
        groups = {group: {"hosts": ["mac"]} for group in ("edge", "control_plane", "builder")}
        listing = {"_meta": {"hostvars": hosts}, "nodes": {"hosts": list(hosts)}, **groups}
        return derived(parse(listing, self.folder, {}))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three empty hosts."""
    return Site(tmp_path_factory.mktemp("trust site"))


@pytest.fixture(scope="module")
def first(site: Site) -> Run:
    """A check run on nothing, which must leave nothing, and the first real run."""
    check = site.run("--check")
    assert check.code == 0, check.text
    assert min(check.changed.values()) >= 1
    assert not site.trust.exists()
    assert not list(site.folder.glob("hosts/*/shared/tokens"))
    run = site.run()
    assert run.code == 0, run.text
    return run


def test_each_host_gets_its_own_and_no_more(site: Site, first: Run) -> None:
    """The Edge's host: certificate, key, admin token; each node: the authority and its own token; all 0600."""
    made = {path.name: path.read_text() for path in site.trust.iterdir()}
    for host in MANAGERS:
        wanted = {"ca.pem": made["ca.pem"], "node.token": made[f"{host}-node.token"]}
        if host == "mac":
            wanted |= {
                "edge.pem": made["edge.pem"],
                "edge.key": made["edge.key"],
                "admin.token": made["edge.admin.token"],
            }
        assert site.tokens(host) == wanted
        folder = site.folder / "hosts" / host / "shared" / "tokens"
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
    assert min(first.changed.values()) >= 1


def test_the_configs_name_the_files(site: Site, first: Run) -> None:
    """They pass the checks; with systemd they name what a unit gets, which only the unit can see."""
    edge_home = site.folder / "hosts" / "mac" / "shared"
    edge = load_edge(edge_home / "edge.candidate.yaml")
    assert edge.findings == ()
    assert edge.config is not None
    assert str(edge.config.listen.nodes) == "0.0.0.0:3"
    assert (str(edge.config.listen.openai), str(edge.config.listen.admin)) == ("127.0.0.1:2", "127.0.0.1:4")
    assert edge.config.auth.admin_token_file == str(edge_home / "tokens" / "admin.token")
    assert load_edge(site.trust.parent / "edge.candidate.yaml").findings == ()

    near, far = (site.folder / "hosts" / host / "shared" / "node.yaml" for host in ("onexplayer", "gx10"))
    node = load_node(near)
    assert node.config is not None
    assert node.findings == ()
    assert (str(node.config.edge.addr), node.config.edge.ca_file) == (
        "10.77.0.13:3",
        str(near.parent / "tokens" / "ca.pem"),
    )
    assert 'token_file: "/run/credentials/iop-node.service/node.token"' in far.read_text()
    watch = {host: json.loads((site.folder / "hosts" / host / "watch.json").read_text()) for host in MANAGERS}
    files = {host: [Path(one).name for one in watch[host]["node"]] for host in MANAGERS}
    assert files == {"gx10": ["ca.pem", "node.token"], "onexplayer": [], "mac": []}
    assert [Path(one).name for one in watch["mac"]["edge"]] == ["admin.token"]
    assert {one["admin"] for one in watch.values()} == {str(edge_home / "tokens" / "admin.token")}


def test_b79_nothing_that_a_run_leaves_or_shows_holds_a_secret(site: Site, first: Run) -> None:
    """Output of -vvv --diff, report, temporary files, arguments and environment of the processes on hosts, configs."""
    assert site.leaks(first.text) == []
    assert site.leaks(f"one of them: {site.secrets()[0]}") == ["what was printed"]
    seen = site.log.read_text()
    assert seen.count('"put"') >= 9
    assert "deploy.json" in {path.name for path in site.folder.rglob("reports/*/*")}
    assert "ca_file: " in first.text  # --diff does show what is no secret


def test_the_second_run_changes_nothing(site: Site, first: Run) -> None:
    """No task, on no host."""
    again = site.run()
    assert (again.code, again.changed) == (0, dict.fromkeys(MANAGERS, 0)), again.text
    assert site.leaks(again.text) == []


def test_a_rotated_token_reaches_its_node_and_the_config(site: Site, first: Run) -> None:
    """One file on one host, and the hash that the Edge compares; the old secret is not told either."""
    before = {host: site.tokens(host) for host in MANAGERS}
    old = site.secrets()
    command = [sys.executable, "-m", "iop_trust", "rotate", "--folder", str(site.trust), "--node", "gx10-node"]
    subprocess.run(command, env={"PYTHONPATH": str(ROOT / "runtime")}, check=True, capture_output=True)

    run = site.run()

    assert run.code == 0, run.text
    after = {host: site.tokens(host) for host in MANAGERS}
    assert {(h, n) for h in MANAGERS for n in after[h] if after[h][n] != before[h][n]} == {("gx10", "node.token")}
    assert run.changed == {"gx10": 1, "onexplayer": 0, "mac": 0}
    assert site.leaks(run.text) == []
    assert not any(secret in run.text for secret in old)


def test_a_failure_is_told_in_full_and_without_the_secret(site: Site, first: Run) -> None:
    """Where the tokens should be is a file: the path and the system's reason are shown."""
    folder = site.folder / "hosts" / "gx10" / "shared" / "tokens"
    away = folder.rename(folder.with_name("away-tokens"))
    folder.write_text("not a folder")
    try:
        run = site.run()
    finally:
        folder.unlink()
        away.rename(folder)

    assert run.code != 0
    assert f"cannot write {folder}/" in run.text
    assert "censored" not in run.text
    assert site.leaks(run.text) == []
