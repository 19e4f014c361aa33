"""The shapes of the pool's pictures."""

from dataclasses import fields

from iop.domain.snapshots import Anomalies, NodeState, ProviderState, Totals


def test_states_are_listed_in_the_order_in_which_they_are_shown() -> None:
    """The first that holds is shown: the enums keep that order and the interface's words."""
    assert " ".join(ProviderState) == "removing draining offline down suspect ready"
    assert " ".join(NodeState) == "draining offline connected"


def test_totals_and_anomalies_have_the_fields_of_the_interface() -> None:
    """Status JSON is made from these fields, so their names bind."""
    assert " ".join(field.name for field in fields(Totals)) == (
        "capacity in_flight queued received refused expired abandoned admitted adopted returned completed failed "
        "cancelled"
    )
    assert " ".join(field.name for field in fields(Anomalies)) == "double_release stale_release node_over_capacity"
