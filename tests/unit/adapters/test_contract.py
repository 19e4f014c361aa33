"""The contract of adapters, and that the two kinds keep it."""

import inspect

import pytest

from iop.adapters.cli.adapter import CliAdapter
from iop.adapters.contract import RETURNABLE, Adapter, RunEnd
from iop.adapters.openai_compat.adapter import OpenAICompat
from iop.domain.effects import Outcome
from iop.domain.returns import FAILURES as RETURN_REASONS
from iop.link.messages import FAILURES, LINK_LOST, EngineInstance

MADE = [
    CliAdapter([]),
    OpenAICompat(EngineInstance(name="e", provider="other", endpoint="http://127.0.0.1:1/v1", capacity=2)),
]


@pytest.mark.parametrize("adapter", MADE, ids=lambda adapter: adapter.type)
def test_adapters_have_what_a_node_uses(adapter):
    """Each kind has the contract's fields, and its methods take the same arguments."""
    for name in Adapter.__annotations__:
        assert hasattr(adapter, name)
    for name in ("run", "probe", "close"):
        wanted = list(inspect.signature(getattr(Adapter, name)).parameters)[1:]
        assert list(inspect.signature(getattr(adapter, name)).parameters) == wanted


def test_only_ends_without_a_status_may_go_back_to_the_line():
    """Exactly the failures that came before any HTTP status are returnable; link and admission know the same ones."""
    assert frozenset({"unreachable", "reset", "busy", "stopping"}) == RETURNABLE
    assert set(FAILURES) >= RETURNABLE
    assert RETURNABLE | {LINK_LOST} == RETURN_REASONS
    assert RunEnd(Outcome.COMPLETED).failure is None
