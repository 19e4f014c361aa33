"""Which nodes may connect, and what each is told to run: the declared catalog, from the config in force."""

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

from iop.config.models import EdgeConfig
from iop.config.resources import NodeEntry
from iop.link.messages import CliTarget, EngineInstance, NodeRuntimeConfig, ProviderRuntime


class Directory:
    """Answers the link's questions about nodes. `current` returns the config in force and its generation."""

    def __init__(self, current: Callable[[], tuple[EdgeConfig, int]]) -> None:
        self._current = current

    def check(self, node_id: str, token: str | None, peer_is_loopback: bool) -> str | None:  # noqa: FBT001 (a fact, not a switch)
        """Return the `turned_away` code for this hello, None when the node is welcome.

        A node without a configured token may connect from loopback only. Tokens are compared as hashes of bytes, in
        constant time; an unreadable token file turns away (fails closed).
        """
        node = find_node(self._current()[0], node_id)
        if node is None:
            return "unknown_node"
        wanted = _token_hash(node)
        if wanted is None:
            return None if peer_is_loopback else "bad_token"
        given = hashlib.sha256((token or "").encode("utf-8", "surrogatepass")).hexdigest()
        return None if token and hmac.compare_digest(wanted.encode(), given.encode()) else "bad_token"

    def config(self, node_id: str) -> tuple[int, NodeRuntimeConfig]:
        """Return the generation and the runtime config of a declared node. Raises KeyError for an unknown one."""
        config, generation = self._current()
        node = find_node(config, node_id)
        if node is None:
            raise KeyError(node_id)
        return generation, runtime_config(config, node)


def find_node(config: EdgeConfig, node_id: str) -> NodeEntry | None:
    """Return the declared node of this id."""
    return next((node for node in config.nodes if node.id == node_id), None)


def runtime_config(config: EdgeConfig, node: NodeEntry) -> NodeRuntimeConfig:
    """Return what the node shall run: its enabled adapters and its providers, with the times of this Edge."""
    cli = node.adapters.cli
    return NodeRuntimeConfig(
        node_id=node.id,
        alias=node.alias,
        concurrency=node.runtime.concurrency,
        cli_enabled=cli.enabled,
        cli_targets=tuple(
            CliTarget(
                name=name,
                kind=target.kind,
                command=tuple(target.command),
                env=dict(target.env),
                cwd=target.cwd,
                timeout=target.timeout,
            )
            for name, target in (cli.targets.items() if cli.enabled else ())
        ),
        engines=tuple(
            EngineInstance(
                name=engine.name,
                provider=engine.provider,
                endpoint=engine.endpoint,
                capacity=node.instance_capacity(engine.name),
                api_key_file=engine.api_key_file,
            )
            for engine in node.adapters.openai_compat_instances
            if engine.enabled
        ),
        providers=tuple(
            ProviderRuntime(
                id=provider.id,
                type=provider.type,
                category=provider.category,
                adapter=provider.adapter,
                capacity=provider.capacity,
                on_disconnect=provider.on_disconnect,
            )
            for provider in node.providers
        ),
        probe_every=config.probe.every,
        answer_timeout=config.engine.answer_timeout,
        idle_timeout=config.stream.idle_timeout,
        drain_timeout=config.drain_timeout,
    )


def _token_hash(node: NodeEntry) -> str | None:
    if node.token_sha256 is not None:
        return node.token_sha256.lower()
    if node.token_file is None:
        return None
    try:
        token = Path(node.token_file).read_bytes().strip()
    except OSError:
        return "unreadable"  # equal to no hash
    return hashlib.sha256(token).hexdigest()
