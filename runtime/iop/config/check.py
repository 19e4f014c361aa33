"""All rules of each config file over its document. Pure: `structure` checks shapes, `files` looks at the disk."""

from itertools import chain

from iop.config import references, safety
from iop.config.document import Document, View
from iop.config.findings import Finding


def _root(document: Document) -> View:
    return View(document, (), document.data)


def check_edge(document: Document) -> tuple[Finding, ...]:
    """References and safety of edge.yaml."""
    root = _root(document)
    rules = (
        references.ids,
        references.keys,
        references.allow_lists,
        references.adapters,
        references.routes,
        references.capacity,
        references.emptiness,
        references.legacy,
        safety.same_port,
        safety.openai_listener,
        safety.admin_listener,
        safety.node_listener,
        safety.node_tokens,
        safety.secrets,
    )
    return tuple(chain.from_iterable(rule(root) for rule in rules))


def check_node(document: Document) -> tuple[Finding, ...]:
    """Safety of node.yaml."""
    root = _root(document)
    return (*safety.dialled_edge(root), *safety.secrets(root))


def check_control(document: Document) -> tuple[Finding, ...]:
    """References and safety of control.yaml."""
    root = _root(document)
    edges = root.items("edges")
    return (
        *references.unique(edges, "id", "edge id"),
        *references.keys(root),
        *safety.control_listener(root),
        *safety.watched_edges(root),
        *safety.secrets(root),
    )
