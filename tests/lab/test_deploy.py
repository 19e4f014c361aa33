"""Deploys to three booted hosts over ssh: what they must do on any real hosts."""

from tests.lab.lab import HOSTS
from tests.lab.site import NODES, LabSite

SERVICES = {
    "mac": {"mac.edge", "mac.control", "mac.node", "mac-mlx-vllm.engine"},
    "gx10": {"gx10.node", "gx10-vllm.engine"},
    "onexplayer": {"onexplayer.node", "onexplayer-lemonade.engine"},
}


def test_the_first_deploy_makes_the_dev_picture(site: LabSite) -> None:
    """Three connected nodes and ten slots; one release; each host runs its own services and no others."""
    found, edge = site.status(), site.edge_status()

    assert found["well"] is True, found
    assert {host["name"]: {one["name"] for one in host["services"]} for host in found["hosts"]} == SERVICES
    assert {one["id"] for one in edge["nodes"] if one["connected"]} == set(NODES.values())
    assert {one["provider_id"]: one["capacity"] for one in edge["provider_snapshots"]} == {
        "mac-mlx-vllm": 3,
        "gx10-vllm": 4,
        "onexplayer-lemonade": 3,
    }
    assert len(set(site.releases().values())) == 1
    assert not any(edge["anomalies"].values())


def test_nothing_but_the_node_link_leaves_the_edges_host(site: LabSite) -> None:
    """From a sibling 18084 speaks TLS; the OpenAI API, the admin API and the Control Plane are not there."""
    probe = (
        "import socket,sys; s=socket.socket(); s.settimeout(5); sys.exit(s.connect_ex(('10.77.0.11',int(sys.argv[1]))))"
    )
    codes = {port: site.lab.ssh("gx10", f'python3 -c "{probe}" {port}').code for port in (18084, 18083, 18001, 19093)}

    assert codes[18084] == 0
    assert all(codes[port] != 0 for port in (18083, 18001, 19093)), codes


def test_services_cannot_write_the_code_and_others_cannot_read_the_secrets(site: LabSite) -> None:
    """The services' account reads releases and configs, writes state and logs, and sees no token of the host."""
    assert site.lab.exec("gx10", "runuser", "-u", "iop", "--", "test", "-r", "/srv/iop/shared/node.yaml").code == 0
    for path, flag in {
        "/srv/iop/current/venv": "-w",
        "/srv/iop/shared/run": "-w",
        "/srv/iop/shared/tokens": "-x",
    }.items():
        assert site.lab.exec("gx10", "runuser", "-u", "iop", "--", "test", flag, path).code == 1, path
    for path in ("/srv/iop/shared/state", "/srv/iop/shared/logs"):
        assert site.lab.exec("gx10", "runuser", "-u", "iop", "--", "test", "-w", path).code == 0, path
    assert site.lab.exec("mac", "runuser", "-u", "nobody", "--", "ls", "/srv/iop/shared").code != 0


def test_a_second_run_changes_nothing(site: LabSite) -> None:
    """No step of any playbook is a change, and the same processes go on."""
    before = site.pids()

    assert site.playbook("bootstrap").changed == 0
    again = site.deploy()
    assert (again.code, again.changed) == (0, 0), again.text
    check = site.deploy("--check", "--diff")
    assert (check.code, check.changed) == (0, 0), check.text
    assert site.pids() == before
    assert set(before) == {name for names in SERVICES.values() for name in names}


def test_a_capacity_change_touches_no_node(site: LabSite) -> None:
    """One file of the inventory, one live refresh: the new number at once, every process as before."""
    before = site.pids()
    site.edit("inventory/lab/host_vars/gx10/node.yml", "capacity: 4", "capacity: 5")
    try:
        foreseen = site.deploy("--check", "--diff")
        assert foreseen.code == 0, foreseen.text
        assert "capacity: 5" in foreseen.text
        run = site.deploy()
        assert run.code == 0, run.text
        now = {one["provider_id"]: one["capacity"] for one in site.edge_status()["provider_snapshots"]}
        assert now["gx10-vllm"] == 5
    finally:
        site.git("checkout", "-q", "inventory")
        back = site.deploy()
    assert back.code == 0, back.text
    changed = {name for name, pid in site.pids().items() if before[name] != pid}
    assert changed <= {"gx10-vllm.engine"}  # the simulated engine is started with its number of slots


def test_a_run_of_another_checkout_is_not_run_over(site: LabSite) -> None:
    """Ended at once, with who holds the host; what it had taken of the others by then is free again."""
    who = "--root /srv/iop --run-id 20261130T000000Z-dev-runtime-7"
    helper = "python3 $(ls -t ~/.cache/iop/*.pyz | head -1)"
    assert site.lab.ssh("gx10", f"{helper} hold {who} --holder ben@office:/iop --key other").code == 0
    before = site.pids()
    try:
        run = site.deploy()
        held = {host: site.lab.ssh(host, "ls ~/.cache/iop/ | grep hold").out for host in HOSTS}
    finally:
        assert site.lab.ssh("gx10", f"{helper} let-go {who}").code == 0

    assert run.code == 2, run.text
    told = " ".join(run.text.split())
    assert "ben@office:/iop is at work on this host (run 20261130T000000Z-dev-runtime-7" in told
    assert "-e take_over=true" in told
    assert run.changed == 0
    assert {host for host, out in held.items() if out} == {"gx10"}
    assert site.pids() == before


def test_limit_and_tags(site: LabSite) -> None:
    """One host alone, and one part alone, on what is deployed already: nothing to do, and nobody else is asked."""
    for arguments in (("--limit", "gx10"), ("--tags", "edge"), ("--limit", "onexplayer", "--tags", "nodes")):
        run = site.deploy(*arguments)
        assert (run.code, run.changed) == (0, 0), run.text


def test_upgrade_downgrade_and_rollback_of_the_whole(site: LabSite) -> None:
    """A new commit is everywhere after a deploy, an older one that is named, too; a rollback undoes the last."""
    old = site.releases()["edge"]
    head = site.new_release("upgrade")

    up = site.deploy()
    assert up.code == 0, up.text
    assert {one.split("-")[0] for one in site.releases().values()} == {head}

    down = site.deploy("-e", "source_ref=HEAD~1")
    assert down.code == 0, down.text
    assert set(site.releases().values()) == {old}
    assert [one["host"] for one in down.report["gates"]] == ["gx10", "onexplayer", "mac"]

    back = site.playbook("rollback")
    assert back.code == 0, back.text
    assert {one.split("-")[0] for one in site.releases().values()} == {head}
    assert len(site.releases()) == 1 + len(HOSTS)
