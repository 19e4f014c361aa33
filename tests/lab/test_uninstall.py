"""Taking it all away again. The last file of this folder by name: afterwards nothing is deployed."""

from tests.lab.lab import HOSTS
from tests.lab.site import LabSite

#: what a host still has of us: files, units, processes, accounts, rules
LOOK = (
    "ls -d /srv/iop /etc/sudoers.d/iop* /etc/systemd/system/iop* /etc/systemd/system/*/iop* /home/lab/.cache/iop "
    "/Library/LaunchDaemons/iop* 2>/dev/null; getent passwd iop; getent group iop; "
    "pgrep -af 'iop[-_]releas[e]|iop-nod[e]'; true"
)


def test_a_host_that_cannot_be_reached_is_named(site: LabSite) -> None:
    """The others are stopped, its services are not called stopped, and the second run has only it to do."""
    site.lab.cut("gx10")
    try:
        run = site.playbook("uninstall", "-e", "purge=here")
    finally:
        site.lab.restore("gx10")
    assert run.code == 4, run.text
    assert "not dealt with: gx10" in run.text
    assert "mac: stopped " in run.text
    assert (site.home / "trust").is_dir()

    again = site.playbook("uninstall", "-e", "purge=true")
    assert again.code == 0, again.text
    assert "gx10: stopped " in again.text
    assert not site.home.exists()


def test_nothing_is_left(site: LabSite) -> None:
    """No file, unit, process, account or rule of ours on any host; and a second run has nothing to do."""
    away = ("-e", "state=absent", "-e", "purge=true")
    run = site.playbook("bootstrap", *away)
    assert run.code == 0, run.text
    assert {host: site.lab.exec(host, "sh", "-c", LOOK).out for host in HOSTS} == dict.fromkeys(HOSTS, "")

    again = site.playbook("bootstrap", *away)
    assert (again.code, again.changed) == (0, 0), again.text
