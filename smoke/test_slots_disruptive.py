"""Cases that take something away under load: `-m disruptive` alone runs them, where the inventory allows it.

They take slots (see scheduling.py). Whoever else uses the environment meanwhile is made to wait, is cut, or is refused.
"""

from collections.abc import Callable

import pytest

from iop.config.inventory import Inventory
from iop.ops.token import NoToken, admin_token
from smoke import disruptions, grip
from smoke.history import RoundKind
from smoke.rounds import Bench
from smoke.stage import Act
from smoke.test_slots import prove

pytestmark = pytest.mark.disruptive
#: so many that no slot comes free while hundreds join the line
TOKENS = 1024


def test_drain_under_load(bench: Bench, request: pytest.FixtureRequest) -> None:
    """A node is drained while every slot is taken: it gets nothing new, nobody notices, and it comes back."""
    try:
        token = admin_token(bench.inventory, request.config.option.token_file)
    except NoToken as error:
        pytest.fail(f"blocked: {bench.blocked('drained', str(error))}", pytrace=False)
    hosts = sorted(bench.inventory.hosts, key=lambda host: -sum(provider.capacity for provider in host.providers))
    prove(bench, "drained", "drained", disruptions.drained(bench.reach.admin, token, hosts[0].node_id))


def test_node_is_killed_under_load(bench: Bench) -> None:
    """A node's process dies while every slot is taken: the others go on, and its service manager brings it back."""
    _with_grip(bench, "killed", disruptions.killed)


def test_link_is_cut_under_load(bench: Bench) -> None:
    """A node falls silent while every slot is taken, until its link is dead; what it had is answered for."""
    _with_grip(bench, "cut", disruptions.cut)


def test_line_is_full(bench: Bench) -> None:
    """Every slot and every place in line is taken: who comes then is refused, with a reason and when to come again."""
    prove(bench, "line-full", "line_full", disruptions.line_full, tokens=TOKENS)


def _with_grip(bench: Bench, case: RoundKind, act: Callable[[Inventory], Act]) -> None:
    try:
        grip.find(bench.inventory)
    except grip.NoGrip as error:
        pytest.skip(f"no node's process can be signalled from here: {error}")
    prove(bench, case, case, act(bench.inventory))
