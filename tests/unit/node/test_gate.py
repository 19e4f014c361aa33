"""The node's own gate."""

import pytest

from iop.node.gate import Gate


def test_capacity_and_not_one_more() -> None:
    """So many slots as the capacity says can be held; one comes free with each that is given back."""
    gate = Gate()
    gate.configure({"p": 2})
    assert [gate.take("p") for _ in range(3)] == [True, True, False]
    gate.give("p")
    assert gate.take("p")
    assert gate.in_flight("p") == 2


def test_counts_outlive_config_pushes() -> None:
    """A shrunk or removed provider keeps what it holds, and gives nothing out until that is below the capacity."""
    gate = Gate()
    gate.configure({"p": 3})
    assert all(gate.take("p") for _ in range(3))
    gate.configure({"p": 2})
    gate.give("p")
    assert not gate.take("p")
    gate.configure({})
    gate.give("p")
    assert not gate.take("p")
    gate.configure({"p": 2})
    assert gate.take("p")
    assert gate.in_flight("p") == 2


def test_an_unknown_provider_has_no_slot() -> None:
    """What the config does not name cannot be taken, and nothing can be given back that is not held."""
    gate = Gate()
    assert not gate.take("p")
    with pytest.raises(ValueError, match="no slot of p is held"):
        gate.give("p")
