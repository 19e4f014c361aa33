"""The nodes[] part: defaults and what an instance can bear."""

from iop.config.resources import NodeEntry

NODE = NodeEntry.model_validate(
    {
        "id": "n",
        "adapters": {
            "openai_compat_instances": [
                {"name": "a", "enabled": True, "provider": "vllm", "endpoint": "http://h/v1"},
                {"name": "b", "enabled": True, "provider": "vllm", "endpoint": "http://h/v1", "capacity": 9},
            ]
        },
        "providers": [
            {"id": f"p{i}", "type": "vllm", "category": "local_inference", "adapter": name, "capacity": i}
            for i, name in ((1, "a"), (2, "a"), (4, "b"))
        ],
    }
)


def test_an_instance_bears_its_own_number_or_the_sum_of_its_providers() -> None:
    """A missing instance capacity is the sum over its providers."""
    assert (NODE.instance_capacity("a"), NODE.instance_capacity("b"), NODE.instance_capacity("c")) == (3, 9, 0)


def test_defaults_of_a_node() -> None:
    """No CLI adapter, cancel on disconnect, no legacy number."""
    assert (NODE.adapters.cli.enabled, NODE.adapters.cli.targets) == (False, {})
    assert {provider.on_disconnect for provider in NODE.providers} == {"cancel"}
    assert (NODE.runtime.concurrency, NODE.alias, NODE.token_file, NODE.token_sha256) == (None, None, None, None)
