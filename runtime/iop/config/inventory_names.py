"""Names of variables that are misspelt: nobody reads them, so what they were to say would be lost without a word."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from iop.config.inventory_listing import CONNECTION, OPTIONAL

#: what the reader asks for by name, and what only the playbooks read
KNOWN = frozenset(
    {*CONNECTION, *OPTIONAL}
    | {
        "deploy_env",
        "edge_id",
        "ports",
        "port_base",
        "models",
        "smoke_model",
        "engine_kind",
        "engine_url",
        "engine_model",
    }
    | {"node_id", "node_alias", "node_platform", "node_arch", "service_manager", "cli_targets", "providers"}
    | {"source_ref", "artifacts", "agents_home"}
)
_NEAR = 0.86  # difflib's ratio: one letter more, less or astray in a word of seven; further ones are the user's own


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one is nearly, in all likelihood misspelt; None when there is none."""
    return next(iter(difflib.get_close_matches(name, sorted(known), 1, _NEAR)), None)


def misspelt(listing: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name as it stands, name that is meant) of each variable that is nearly one of ours."""
    given = {name for variables in listing["_meta"]["hostvars"].values() for name in variables}
    for name in sorted(given - KNOWN):
        if near := nearest(name, KNOWN):
            yield name, near
