"""What the coming and going of nodes, their probes and their drain leases do to the pool."""

from collections.abc import Iterable, Sequence

from iop.domain.fleet import Node
from iop.domain.pool import Pool


def connect(pool: Pool, node: Node, epoch: int, now: float, running: Sequence[tuple[str, str]]) -> None:
    """Take a new link: what is held through an older one ends as failed, what the node still runs is adopted."""
    freed = pool.cut_link(node, now, adopted_only=False)
    node.epoch, node.connected, node.link_reason, node.stopping = epoch, True, None, False
    for provider in pool.fleet.of_node(node):
        provider.busy = False
        provider.silence.answers = True  # the new link has told of no probe yet
    pool.show_node(node, now)
    for provider_id, request_id in running:
        adopter = pool.fleet.providers.get(provider_id)
        if adopter is not None and adopter.node is node:
            pool.adopt(adopter, request_id, now)
    pool.dispatch([*pool.fleet.of_node(node), *freed], now)


def lose(pool: Pool, node: Node, now: float) -> None:
    """Take the loss of a link: adopted work ends as failed, other leases are settled by the shell right after."""
    node.connected, node.link_reason, node.stopping = False, "link lost", False
    pool.show_node(node, now)
    pool.dispatch(pool.cut_link(node, now, adopted_only=True), now)


def end_drains(pool: Pool, nodes: Iterable[Node], now: float) -> None:
    """End these nodes' drain leases."""
    ended = list(nodes)
    for node in ended:
        pool.fleet.undrain(node)
    for node in ended:
        pool.show_node(node, now)
    pool.dispatch([provider for node in ended for provider in pool.fleet.of_node(node)], now)
