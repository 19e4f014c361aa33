"""The table of states of a request and of a node."""

import itertools

import pytest

from iop.domain.states import TRANSITIONS, IllegalTransition, State, advance

ARROWS = {
    "node-configured": "resource-catalog-validated config-error",
    "resource-catalog-validated": "node-connected",
    "node-connected": "run-routed status-reported resource-catalog-validated",
    "run-routed": "provider-admitted direct-dispatched queued run-error",
    "queued": "provider-admitted run-error",
    "provider-admitted": "provider-dispatched queued run-error",
    "provider-dispatched": "run-complete run-error queued",
    "direct-dispatched": "run-complete run-error",
    "status-reported": "",
    "run-complete": "",
    "run-error": "",
    "config-error": "",
}


def test_the_table_has_exactly_the_arrows_of_the_product() -> None:
    """Every state is in the table with its arrows and no other."""
    assert {str(state): {str(to) for to in arrows} for state, arrows in TRANSITIONS.items()} == {
        state: set(arrows.split()) for state, arrows in ARROWS.items()
    }


@pytest.mark.parametrize(("state", "following"), list(itertools.product(State, State)))
def test_an_arrow_is_followed_or_raises(state: State, following: State) -> None:
    """A legal arrow gives the next state; any other raises."""
    if following in ARROWS[state].split():
        assert advance(state, following) is following
    else:
        with pytest.raises(IllegalTransition, match=f"from {state} to {following}"):
            advance(state, following)


def test_the_table_cannot_be_written() -> None:
    """Nobody can add an arrow at run time."""
    with pytest.raises(TypeError):
        TRANSITIONS[State.RUN_COMPLETE] = frozenset({State.QUEUED})  # type: ignore[index]
