"""Rules on references: ids are unique, what is named exists, providers use enabled adapters of their node (S02)."""

from collections.abc import Iterator

from iop.config.document import View
from iop.config.findings import Finding
from iop.config.structure import nearest


def unique(views: list[View], key: str, what: str) -> Iterator[Finding]:
    """Each value of `key` stands once."""
    seen: dict[str, int] = {}
    for view in views:
        value = view.text(key)
        if value is None:
            continue
        place = view.child(key)
        if value in seen:
            message = f"the {what} {value} stands here twice, first on line {seen[value]}"
            yield place.error("duplicate_id", message, "give each its own")
        else:
            seen[value] = place.document.at(place.path)[0]


def instances(node: View) -> list[View]:
    """The engine instances of a node."""
    return node.child("adapters").items("openai_compat_instances")


def _providers(root: View) -> list[View]:
    return [provider for node in root.items("nodes") for provider in node.items("providers")]


def _known(names: Iterator[str | None]) -> list[str]:
    return sorted({name for name in names if name is not None})


def _suggest(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {near}?"
    return f"known: {', '.join(known)}" if known else "none is declared"


def ids(root: View) -> Iterator[Finding]:
    """Node, provider and model ids, adapter names within a node, names and hashes of keys."""
    nodes = root.items("nodes")
    yield from unique(nodes, "id", "node id")
    yield from unique(_providers(root), "id", "provider id")
    yield from unique(root.items("models"), "id", "model id")
    for node in nodes:
        yield from unique(instances(node), "name", "adapter name")
        for instance in instances(node):
            if instance.text("name") == "cli":
                yield instance.child("name").error("duplicate_id", "cli is the name of the CLI adapter", "rename it")


def keys(root: View) -> Iterator[Finding]:
    """API keys: names and hashes once, allow-lists of known models."""
    api_keys = root.child("auth").items("api_keys")
    yield from unique(api_keys, "name", "key name")
    seen: set[str] = set()
    for entry in api_keys:
        digest = entry.text("sha256")
        if digest in seen:
            yield entry.child("sha256").error("duplicate_id", "two entries hold the same key", "remove one of them")
        if digest is not None:
            seen.add(digest)


def allow_lists(root: View) -> Iterator[Finding]:
    """Models in the allow-lists of keys exist."""
    known = _known(model.text("id") for model in root.items("models"))
    for entry in root.child("auth").items("api_keys"):
        for name in entry.items("models"):
            if isinstance(name.data, str) and name.data not in known:
                yield name.warning("unknown_model", f"no model {name.data} is declared", _suggest(name.data, known))


def adapters(root: View) -> Iterator[Finding]:
    """S02: `providers[].adapter` names an enabled adapter instance of the same node."""
    nodes = root.items("nodes")
    for node in nodes:
        for provider in node.items("providers"):
            name = provider.text("adapter")
            if name is not None:
                yield from _adapter(provider.child("adapter"), name, node, nodes)


def _adapter(place: View, name: str, node: View, nodes: list[View]) -> Iterator[Finding]:
    own = [instance for instance in instances(node) if instance.text("name") == name]
    if any(instance.child("enabled").data is not False for instance in own):
        return
    if own:
        yield place.error("disabled_adapter", f"the adapter {name} is not enabled", "set enabled: true on the instance")
        return
    if name == "cli":
        hint = "name one of openai_compat_instances; a CLI agent is reached by a model with direct"
        yield place.error("unknown_adapter", "a provider cannot use the CLI adapter", hint)
        return
    elsewhere = [other.text("id") for other in nodes if any(i.text("name") == name for i in instances(other))]
    if elsewhere:
        message = f"the adapter {name} is of the node {elsewhere[0]}, not of this one"
        yield place.error("foreign_adapter", message, "a provider uses an adapter instance of its own node")
        return
    known = _known(instance.text("name") for instance in instances(node))
    yield place.error("unknown_adapter", f"this node has no adapter {name}", _suggest(name, known))


def routes(root: View) -> Iterator[Finding]:
    """Models name existing providers; direct models a known node with an enabled CLI adapter and a known target."""
    known = _known(provider.text("id") for provider in _providers(root))
    for model in root.items("models"):
        for name, place in model.pairs("providers"):
            if name not in known:
                yield place.error("unknown_provider", f"there is no provider {name}", _suggest(name, known), key=True)
        yield from _direct(root, model.child("direct"))


def _direct(root: View, direct: View) -> Iterator[Finding]:
    node_id, target = direct.text("node"), direct.text("target")
    if node_id is None:
        return
    nodes = root.items("nodes")
    node = next((node for node in nodes if node.text("id") == node_id), None)
    if node is None:
        hint = _suggest(node_id, _known(node.text("id") for node in nodes))
        yield direct.child("node").error("unknown_node", f"there is no node {node_id}", hint)
        return
    cli = node.child("adapters").child("cli")
    if direct.text("adapter") == "cli" and (cli.data is None or cli.child("enabled").data is False):
        message = f"the CLI adapter of the node {node_id} is not enabled"
        yield direct.child("adapter").error("disabled_adapter", message, "set adapters.cli.enabled: true on that node")
        return
    known = sorted(name for name, _ in cli.pairs("targets"))
    if target is not None and target not in known:
        message = f"the node {node_id} has no CLI target {target}"
        yield direct.child("target").error("unknown_target", message, _suggest(target, known))


def capacity(root: View) -> Iterator[Finding]:
    """What an engine can bear covers the sum over its providers; labels agree."""
    for node in root.items("nodes"):
        for instance in instances(node):
            name = instance.text("name")
            users = [provider for provider in node.items("providers") if provider.text("adapter") == name]
            yield from _bearable(instance, users)
            for provider in users:
                yield from _label(instance, provider)


def _bearable(instance: View, users: list[View]) -> Iterator[Finding]:
    bears = instance.integer("capacity")
    needed = sum(provider.integer("capacity") or 0 for provider in users)
    if bears is not None and needed > bears:
        names = ", ".join(str(provider.text("id")) for provider in users)
        message = f"the engine bears {bears}, but its providers ({names}) add up to {needed}"
        yield instance.child("capacity").error("over_capacity", message, "lower the providers or raise this number")


def _label(instance: View, provider: View) -> Iterator[Finding]:
    label, own = instance.text("provider"), provider.text("type")
    if label is not None and own is not None and label != own:
        message = f"the type {own} differs from the provider {label} of its adapter {instance.text('name')}"
        yield provider.child("type").warning("type_mismatch", message, "both are labels of the same engine")


def emptiness(root: View) -> Iterator[Finding]:
    """An Edge without providers or models starts, but hardly as meant."""
    nodes, models = root.child("nodes"), root.child("models")
    if isinstance(nodes.data, list) and not _providers(root):
        yield nodes.warning("no_providers", "no provider is declared: no pool request can be served", key=True)
    if models.data == []:
        yield models.warning("no_models", "no model is declared: every request is answered with 404", key=True)


def legacy(root: View) -> Iterator[Finding]:
    """`runtime.concurrency` is accepted and has no effect (S01)."""
    for node in root.items("nodes"):
        place = node.child("runtime").child("concurrency")
        if place.data is not None:
            message = "legacy: accepted, without effect; capacity belongs to the provider"
            yield place.warning("legacy_concurrency", message, "remove it and set providers[].capacity", key=True)
