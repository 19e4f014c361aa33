"""Counters of the pool."""

from iop.domain.ledger import Ledger


def test_a_fate_is_counted_for_its_provider_and_in_the_sum() -> None:
    """Counting touches one provider's counter and the sum, nothing else."""
    ledger = Ledger()
    ledger.count("a", "admitted")
    ledger.count("b", "admitted")
    ledger.count("b", "completed")
    assert (ledger.of("a").admitted, ledger.of("b").admitted, ledger.slots.admitted) == (1, 1, 2)
    assert (ledger.of("a").completed, ledger.of("b").completed, ledger.slots.completed) == (0, 1, 1)


def test_counters_of_a_provider_are_kept() -> None:
    """The same counters are found again whenever the provider id is named."""
    ledger = Ledger()
    ledger.count("a", "failed")
    assert ledger.of("a") is ledger.of("a")
    assert ledger.of("a").failed == 1
    assert ledger.of("new").failed == 0
