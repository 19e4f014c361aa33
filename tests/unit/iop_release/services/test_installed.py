"""iop_release.services.installed: definitions compared with a host, and written to it."""

import getpass
import grp
import os
from dataclasses import replace
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import installed
from iop_release.services.definitions import SUDOERS, File, Host
from iop_release.services.installed import differing, install
from tests.fakes.service_rigs import place

ME, GROUP = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose accounts all are this one, with a visudo that accepts what says NOPASSWD."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    program = tmp_path / "visudo.py"
    program.write_text("import sys; text = sys.stdin.read(); sys.exit('bad rule' if 'NOPASSWD' not in text else 0)")
    place(tmp_path / "bin", program, ["visudo"])
    monkeypatch.setattr(Host, "definitions", _owned_by_me(Host.definitions))
    return Host("/srv/iop", "systemd", ME if ME != "root" else "lab", ME, GROUP, {"gx10.node": 40})


def _owned_by_me(original):
    return lambda self: [replace(file, owner=ME, group=GROUP) for file in original(self)]


def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_ids", lambda file: (os.getuid(), os.getgid()))


def test_installed_once(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run tells and writes nothing; the first run writes all with its mode; the second nothing."""
    _own(monkeypatch)
    below = tmp_path / "root"
    unit = "/etc/systemd/system/iop-node.service"
    assert differing(host, below) == [(unit, "is missing"), (SUDOERS, "is missing")]

    told = install(host, below, dry_run=True)
    assert not below.exists()
    assert install(host, below) == told
    assert {unit, SUDOERS, "/srv/iop/shared/tokens", "/srv/iop/shared/definitions.json"} <= set(told)
    assert (install(host, below), differing(host, below)) == ([], [])
    assert (below / "srv/iop/shared/tokens").stat().st_mode & 0o7777 == 0o700
    assert (below / "srv/iop/shared/run").stat().st_mode & 0o7777 == 0o2750
    assert (below / SUDOERS.lstrip("/")).stat().st_mode & 0o7777 == 0o440


@pytest.mark.parametrize("name", ["shared/state", "shared"])
def test_root_is_not_led_elsewhere_by_a_link(
    name: str, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in a folder that others can change is refused, by name; what it leads to keeps its owner and mode."""
    _own(monkeypatch)
    below, elsewhere = tmp_path / "root", tmp_path / "etc"
    install(host, below)
    for folder in (below / "srv/iop", below / "srv/iop/shared"):
        folder.chmod(0o2770)  # for a test that runs as root, whose own links are followed
    elsewhere.mkdir(mode=0o751)
    (below / "srv/iop" / name).rename(tmp_path / "aside")
    (below / "srv/iop" / name).symlink_to(elsewhere)

    monkeypatch.setattr(Host, "folders", lambda _: [File(f"/srv/iop/{name}", "2750", ME, GROUP)])
    with pytest.raises(ReleaseError, match=f"srv/iop/{name} is a symbolic link"):
        install(host, below)
    assert (elsewhere.stat().st_mode & 0o7777, list(elsewhere.iterdir())) == (0o751, [])


def test_a_file_that_is_a_link_is_replaced_not_followed(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the file nor its temporary name leads to another file."""
    _own(monkeypatch)
    install(host, tmp_path)
    stored, secret = tmp_path / "srv/iop/shared/definitions.json", tmp_path / "shadow"
    secret.write_bytes(stored.read_bytes())
    secret.chmod(0o600)
    stored.unlink()
    stored.symlink_to(secret)
    stored.with_name(".definitions.json.new").symlink_to(secret)

    assert "/srv/iop/shared/definitions.json" in install(host, tmp_path)
    assert (stored.is_symlink(), secret.stat().st_mode & 0o777) == (False, 0o600)


def test_what_was_changed_by_hand_is_seen_and_mended(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit with another text or mode differs; so does a folder whose mode was changed."""
    _own(monkeypatch)
    below = tmp_path / "root"
    install(host, below)
    unit = below / "etc/systemd/system/iop-node.service"
    unit.write_text("[Unit]\n", encoding="utf-8")
    (below / "srv/iop/shared/tokens").chmod(0o755)

    assert differing(host, below) == [(f"/{unit.relative_to(below)}", "differs from what this release wants")]
    assert install(host, below) == ["/srv/iop/shared/tokens", f"/{unit.relative_to(below)}"]
    assert (install(host, below), differing(host, below)) == ([], [])


def test_what_is_replaced_is_kept_where_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text before the last change, so that launchd can go back to it; the same text again changes nothing there."""
    _own(monkeypatch)
    host = Host("/srv/iop", "launchd", "root", ME, GROUP, {"mac.node": 40})
    kept = tmp_path / "var/db/iop/iop-node.plist"
    install(host, tmp_path)
    assert not kept.exists()
    first = (tmp_path / "Library/LaunchDaemons/iop-node.plist").read_bytes()

    install(replace(host, services={"mac.node": 50}), tmp_path)
    install(replace(host, services={"mac.node": 50}), tmp_path)

    assert kept.read_bytes() == first


def test_rules_that_visudo_refuses_are_not_installed(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faulty file would lock everybody out of sudo, so that it is read by visudo before."""
    _own(monkeypatch)
    monkeypatch.setattr(Host, "definitions", lambda self: [File(SUDOERS, "0440", ME, GROUP, "what?\n")])

    with pytest.raises(ReleaseError, match="visudo refuses the rules"):
        install(host, tmp_path / "root")
    assert not (tmp_path / "root" / SUDOERS.lstrip("/")).exists()


def test_an_account_that_is_missing_is_named(host: Host, tmp_path: Path) -> None:
    """The account comes first; the error says which."""
    strange = replace(host, user="nobody-of-that-name")
    with pytest.raises(ReleaseError, match="nobody-of-that-name"):
        install(strange, tmp_path / "root")
