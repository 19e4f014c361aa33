"""Names that may speak to a port."""

import pytest

from iop.transport.hosts import HostRule, host_name


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:18083", "127.9.9.9", "iop.lan:1"])
def test_own_names_pass(host):
    """Loopback names, loopback literals and configured names pass, with or without a port."""
    assert HostRule(["iop.lan"]).allows(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "",
        "a@localhost",
        "localhost:x",
        "localhost#evil",
        "localhost?evil",
        "localhost/evil",
        "localhost\\evil",
        "[::1]evil",
        "[::1",
        "::1",
        "localhost:65536",
        "localhost:1:2",
        "localhost evil",
        "localhost,evil",
        ".",
        ":80",
    ],
)
def test_foreign_and_malformed_names_do_not(host):
    """Anything else is refused, also what only looks like ours."""
    assert not HostRule(["iop.lan"]).allows(host)


def test_the_address_a_connection_came_in_on_passes():
    """An address literal of this machine is no rebinding attack."""
    assert HostRule().allows("10.0.0.7:18083", "10.0.0.7")
    assert not HostRule().allows("10.0.0.8:18083", "10.0.0.7")


@pytest.mark.parametrize(
    ("hosts", "origins", "word"),
    [
        ([], [], "exactly one"),
        (["localhost", "localhost"], [], "exactly one"),
        (["evil.example"], [], "evil.example"),
        (["localhost"], ["https://evil.example"], "Origin"),
        (["localhost"], ["null"], "Origin"),
    ],
)
def test_a_refusal_says_which_header(hosts, origins, word):
    """The reason names the header at fault."""
    assert word in (HostRule().refusal(hosts, origins) or "")


def test_a_page_of_our_own_may_pass():
    """A loopback Origin is no refusal."""
    assert HostRule().refusal(["localhost:1"], ["http://127.0.0.1:18001"]) is None


def test_host_name_reads_brackets_and_ports():
    """The name comes out lower-case and bare."""
    assert host_name("[::1]:80") == "::1"
    assert host_name("A.b.:80") == "a.b"
    assert host_name("a/b") is None
