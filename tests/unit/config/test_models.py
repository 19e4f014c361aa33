"""The models: defaults of the interface page, frozen, one route per model."""

import pytest
from pydantic import ValidationError

from iop.config.models import ControlConfig, EdgeConfig, Model, NodeConfig
from iop.config.scalars import Address

SMALL = EdgeConfig.model_validate({"edge": {"id": "e"}, "nodes": [], "models": []})


def test_defaults_are_those_of_the_interface() -> None:
    """Each default of the interface's table."""
    assert [str(a) for a in (SMALL.listen.openai, SMALL.listen.nodes, SMALL.listen.admin)] == [
        "127.0.0.1:18083",
        "127.0.0.1:18084",
        "127.0.0.1:19093",
    ]
    assert (SMALL.auth.api_keys, SMALL.auth.admin_token_file) == ((), None)
    assert (SMALL.tls.openai, SMALL.tls.nodes, SMALL.tls.admin, SMALL.link.insecure) == (None, None, None, False)
    queue, stream = SMALL.queue, SMALL.stream
    assert (queue.max_waiting, queue.max_bytes, queue.max_wait, queue.offline_grace) == (256, 256 * 2**20, 120.0, 30.0)
    assert (stream.keepalive_after, stream.write_timeout, stream.idle_timeout) == (15.0, 30.0, 300.0)
    assert (SMALL.engine.answer_timeout, SMALL.http.max_body, SMALL.http.allowed_hosts) == (900.0, 64 * 2**20, ())
    assert (SMALL.link.dead_after, SMALL.drain_timeout, SMALL.wedge_after, SMALL.probe.every) == (
        15.0,
        30.0,
        120.0,
        10.0,
    )


def test_node_and_control_defaults() -> None:
    """node.yaml and control.yaml need only what the smallest files hold."""
    node = NodeConfig.model_validate({"node": {"id": "n"}, "edge": {"addr": "[::1]:1"}})
    assert (node.status_listen, node.cli_commands, node.node.token_file) == (Address("127.0.0.1", 0), {}, None)
    control = ControlConfig.model_validate({"edges": []})
    assert (control.listen, control.edges, control.tls) == (Address("127.0.0.1", 18001), (), None)


def test_models_are_frozen() -> None:
    """Nobody changes a running config in place."""
    with pytest.raises(ValidationError):
        SMALL.queue.max_waiting = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "extra",
    [{}, {"providers": {}}, {"providers": {"p": "m"}, "direct": {"node": "n", "adapter": "cli", "target": "t"}}],
)
def test_a_model_has_exactly_one_route(extra: dict[str, object]) -> None:
    """Neither providers nor direct, or both, is refused."""
    with pytest.raises(ValidationError, match="either providers"):
        Model.model_validate({"id": "m", **extra})


def test_queue_of_length_zero_is_allowed() -> None:
    """max_waiting 0 lets nobody wait."""
    data = {"edge": {"id": "e"}, "nodes": [], "models": [], "queue": {"max_waiting": 0}}
    assert EdgeConfig.model_validate(data).queue.max_waiting == 0
