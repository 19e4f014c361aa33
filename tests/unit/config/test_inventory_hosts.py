"""iop.config.inventory_hosts: what a host says of itself, and what must not be said twice."""

import pytest

from iop.config.inventory_hosts import Host, listen_for_nodes, unlike

PLAIN = {"name": "box", "node_id": "n", "alias": "a", "platform": "linux", "arch": "arm64"}
LOCAL = {**PLAIN, "service_manager": "supervisor"}
FAR = {**PLAIN, "service_manager": "systemd", "address": "10.0.0.2", "user": "u", "python": "/p", "root": "/srv/iop"}


def _host(**changes: object) -> Host:
    return Host.model_validate({**FAR, **changes})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({**LOCAL, "service_manager": "systemd"}, "service_manager systemd but no address"),
        ({**LOCAL, "service_manager": "init"}, "service_manager"),
        ({**FAR, "root": None}, "needs host_root as well"),
        ({**FAR, "python": None, "user": None}, "needs user, python as well"),
        ({**FAR, "root": "srv/iop"}, "absolute path, not 'srv/iop'"),
        ({**FAR, "service_manager": "windows_task"}, "absolute path"),
        ({**FAR, "address": "a b"}, "address"),
        ({**FAR, "ssh_port": 0}, "ssh_port"),
        ({**FAR, "colour": "red"}, "colour"),
    ],
)
def test_half_a_connection_is_refused(facts: dict[str, object], words: str) -> None:
    """A host is wholly this machine or wholly another one; what is missing is named as the file spells it."""
    with pytest.raises(ValueError, match=words):
        Host.model_validate(facts)


def test_the_root_is_in_the_hosts_own_notation() -> None:
    """Backslashes on Windows, none elsewhere (a Linux system may stand in for it), nothing on this machine."""
    windows = _host(root="C:/iop", service_manager="windows_task")

    assert str(windows.root_path) == "C:\\iop"
    assert str(_host(platform="windows").root_path) == "/srv/iop"
    assert Host.model_validate(LOCAL).root_path is None


def test_hosts_are_alike() -> None:
    """All here or all elsewhere; each with a door of its own; each knows where the Edge is."""
    here, far = Host.model_validate(LOCAL), _host(name="far", address="10.0.0.3", edge_address="10.0.0.2")

    assert unlike((here,), "box") == []
    assert unlike((far, _host()), "box") == []
    mixed = "far is reached by ssh, but box has no address: an environment is this machine or real hosts, not both."
    assert unlike((far, here), "box") == [f"{mixed} Write host_vars/box/connection.yml"]
    assert unlike((_host(), far.model_copy(update={"address": "10.0.0.2"})), "box") == [
        "far has the address of box: 10.0.0.2"
    ]
    for address in (None, "127.0.0.1", "localhost"):
        alone = far.model_copy(update={"edge_address": address})
        assert unlike((alone, _host()), "box") == ["far needs edge_address: the address of box as far sees it"]


@pytest.mark.parametrize(
    ("own", "others", "listens"),
    [
        ("10.0.0.2", ["10.0.0.2", "10.0.0.2"], "10.0.0.2"),
        (None, ["10.0.0.2"], "10.0.0.2"),
        ("127.0.0.1", ["10.0.0.2"], "0.0.0.0"),  # the Edge's own node dials loopback
        ("10.0.0.2", ["10.0.0.2", "192.168.1.2"], "0.0.0.0"),
        ("10.0.0.2", ["edge.lan"], "0.0.0.0"),
        (None, [], "127.0.0.1"),
    ],
)
def test_the_edge_listens_where_its_nodes_dial(own: str | None, others: list[str], listens: str) -> None:
    """On the one address that all of them use, else on all; on loopback alone when nobody comes from elsewhere."""
    hosts = [_host(name=f"far{n}", edge_address=one) for n, one in enumerate(others)]

    assert listen_for_nodes((*hosts, _host(edge_address=own)), "box") == listens


def test_the_machine_that_deploys_may_be_one_of_the_hosts() -> None:
    """It is a real host all the same, but its files are at hand."""
    mine = _host(reached_by="local")

    assert (mine.remote, mine.here) == (True, True)
    assert (_host().here, Host.model_validate(LOCAL).here) == (False, True)
