"""The states of a request and of a node as one table; a miss raises and changes nothing.

`queued` is the waiting state of a routed pool request. run-complete, run-error, config-error and status-reported are
final.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a node or a request is."""

    NODE_CONFIGURED = "node-configured"
    RESOURCE_CATALOG_VALIDATED = "resource-catalog-validated"
    CONFIG_ERROR = "config-error"
    NODE_CONNECTED = "node-connected"
    STATUS_REPORTED = "status-reported"
    RUN_ROUTED = "run-routed"
    QUEUED = "queued"
    PROVIDER_ADMITTED = "provider-admitted"
    PROVIDER_DISPATCHED = "provider-dispatched"
    DIRECT_DISPATCHED = "direct-dispatched"
    RUN_COMPLETE = "run-complete"
    RUN_ERROR = "run-error"


#: every legal arrow; a lost link takes node-connected back to resource-catalog-validated, and an admitted or
#: dispatched pool request goes back to queued when its grant is returned before the first byte
TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.NODE_CONFIGURED: frozenset({State.RESOURCE_CATALOG_VALIDATED, State.CONFIG_ERROR}),
        State.RESOURCE_CATALOG_VALIDATED: frozenset({State.NODE_CONNECTED}),
        State.NODE_CONNECTED: frozenset({State.RUN_ROUTED, State.STATUS_REPORTED, State.RESOURCE_CATALOG_VALIDATED}),
        State.RUN_ROUTED: frozenset(
            {State.PROVIDER_ADMITTED, State.DIRECT_DISPATCHED, State.QUEUED, State.RUN_ERROR},
        ),
        State.QUEUED: frozenset({State.PROVIDER_ADMITTED, State.RUN_ERROR}),
        State.PROVIDER_ADMITTED: frozenset({State.PROVIDER_DISPATCHED, State.QUEUED, State.RUN_ERROR}),
        State.PROVIDER_DISPATCHED: frozenset({State.RUN_COMPLETE, State.RUN_ERROR, State.QUEUED}),
        State.DIRECT_DISPATCHED: frozenset({State.RUN_COMPLETE, State.RUN_ERROR}),
        State.STATUS_REPORTED: frozenset(),
        State.RUN_COMPLETE: frozenset(),
        State.RUN_ERROR: frozenset(),
        State.CONFIG_ERROR: frozenset(),
    },
)


class IllegalTransition(Exception):
    """An arrow that is not in the table: a fault of the program, never of a client."""


def advance(state: State, following: State) -> State:
    """Return `following` when the table has that arrow. Raises IllegalTransition otherwise."""
    if following not in TRANSITIONS[state]:
        raise IllegalTransition(f"no arrow from {state} to {following}")
    return following
