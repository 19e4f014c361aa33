"""iop.admin.ssh_trouble: ssh's words become what happened, where, and what to do; never to look away."""

from pathlib import Path

import pytest

from iop.admin.ssh import Door
from iop.admin.ssh_trouble import SshTrouble, late, no_program, trouble
from tests.fakes.fake_ssh import WORDS

BOX = Door("gx10", "10.0.0.2", "me", None, Path("/c/ssh_config"))


def _of(name: str, platform: str = "linux") -> SshTrouble:
    said = WORDS[name].format_map({"host": BOX.address, "user": "me", "config": "/c/ssh_config"})
    return trouble(BOX, said.replace("\n", "\r\n"), platform)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("unknown-key", "unknown_key", "host key of gx10 (10.0.0.2) is not known"),
        ("changed-key", "changed_key", "not the known one"),
        ("denied", "denied", "does not let me in by key"),
        ("no-route", "unreachable", "No route to host"),
        ("timed-out", "unreachable", "timed out"),
        ("refused", "unreachable", "no ssh server answers on gx10"),
        ("no-name", "unreachable", "address of gx10 is not known"),
        ("closed", "unreachable", "ended the connection"),
        ("no-config", "config", "Can't open user config file"),
        ("bad-config", "config", "cannot be used"),
        ("odd", "other", "something nobody has seen"),
    ],
)
def test_each_failure_has_its_kind_and_a_next_step(name: str, kind: str, words: str) -> None:
    """Every message names the host, and every step ends in something to do."""
    found = _of(name)

    assert (found.kind, words in found.message, "gx10" in found.message) == (kind, True, True)
    assert found.step
    assert str(found) == f"{found.message}. {found.step}"
    assert ".." not in str(found)


def test_host_keys_are_compared_never_skipped() -> None:
    """No advice turns checking off; a changed key is removed from the file that ssh named, after comparing."""
    for name in ("unknown-key", "changed-key"):
        step = _of(name).step
        assert "ssh-keygen -lf" in step
        assert "fingerprint" in step
        assert not any(word in step for word in ("StrictHostKeyChecking", "/dev/null", "accept-new"))
    assert "ssh-keygen -f /home/me/.ssh/known_hosts -R '10.0.0.2'" in _of("changed-key").step
    far = Door("gx10", "10.0.0.2", "me", 2222)
    assert "-R '[10.0.0.2]:2222'" in trouble(far, WORDS["changed-key"]).step


def test_a_mac_that_withholds_its_local_network_is_thought_of() -> None:
    """Errno 65 on macOS may be a permission of the terminal; elsewhere nobody is sent to System Settings."""
    assert "Local Network" in _of("no-route", "darwin").step
    assert "Local Network" not in _of("no-route").step
    assert "Local Network" not in _of("timed-out", "darwin").step


def test_silence_and_a_missing_program_are_told_too() -> None:
    """A host that never answers, a machine without ssh, and an ssh that says nothing."""
    assert late(BOX, 20.0).message == "gx10 (10.0.0.2) did not answer within 20 s"
    assert no_program().kind == "no_ssh"
    assert "it said nothing" in trouble(BOX, "").message
