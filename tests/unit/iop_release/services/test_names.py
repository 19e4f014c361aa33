"""iop_release.services.names: from a service's name to its definition's."""

import pytest

from iop_release.errors import ReleaseError
from iop_release.services import names


@pytest.mark.parametrize(
    ("name", "unit", "kind"),
    [
        ("mac.edge", "iop-edge", "edge"),
        ("mac.control", "iop-control", "control"),
        ("gx10.node", "iop-node", "node"),
        ("gx10-vllm.engine", "iop-engine-gx10-vllm", "engine"),
        ("a.b.engine", "iop-engine-a.b", "engine"),
    ],
)
def test_units(name: str, unit: str, kind: str) -> None:
    """One of each on a host, but any number of engines."""
    assert (names.unit(name), names.kind(name)) == (unit, kind)


@pytest.mark.parametrize(
    "name", ["", "node", ".node", "a b.node", "../x.node", "mac.thing", "mac.node\n", "mac.node.x"]
)
def test_what_no_service_is_called(name: str) -> None:
    """A name that is none never becomes a path or an argument of sudo."""
    with pytest.raises(ReleaseError, match="no service is called"):
        names.unit(name)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("iop-node", "host.node"),
        ("iop-edge", "host.edge"),
        ("iop-engine-gx10-vllm", "gx10-vllm.engine"),
        ("iop-engine-", None),
        ("iop-engine", None),
        ("iop-something", None),
        ("sshd", None),
    ],
)
def test_back_from_a_unit(unit: str, name: str | None) -> None:
    """A service that would have this definition, or None."""
    assert names.of(unit) == name
