"""Messages to JSON and back."""

import pytest

from iop.link.codec import Codec
from iop.link.errors import WireError
from iop.link.messages import Bye, Config, End, Hello, NodeRuntimeConfig, ProviderRuntime, Run, RunningWork

EXAMPLES = [
    Hello(protocol=1, node_id="n", instance_id="i", running=(RunningWork(run=3, request_id="r", adapter="a"),)),
    Config(
        epoch=1,
        generation=2,
        dead_after=15.0,
        runtime=NodeRuntimeConfig(
            node_id="n",
            providers=(ProviderRuntime(id="p", type="vllm", category="local_inference", adapter="a", capacity=4),),
        ),
    ),
    Run(run=1, epoch=1, request_id="ü", adapter="a", operation="responses", stream=True, headers=(("a", "b"),)),
    Bye(),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_there_and_back(message):
    """Decoding what was encoded gives the same message."""
    codec = Codec()
    assert codec.decode(codec.encode(message)) == message


def test_unknown_fields_are_ignored():
    """A newer peer may add fields."""
    assert Codec().decode(b'{"type":"bye","why":"new"}') == Bye()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'{"type":"nope"}',
        b'{"type":"end","run":"1"}',
        b'{"n":1}',
        b"\xff",
        b"[" * 5000,
        b'{"type":"ping"}',
    ],
    ids=["empty", "null", "list", "type", "field", "untagged", "bytes", "deep", "missing"],
)
def test_anything_else_is_a_wire_error(payload):
    """No input makes another exception."""
    with pytest.raises(WireError):
        Codec().decode(payload)


def test_undecodable_bytes_in_a_text_do_not_keep_an_end_from_going_out():
    """An agent's stderr may hold anything; the end of its run must still reach the Edge."""
    codec = Codec()
    sent = codec.encode(End(run=1, outcome="failed", detail="bad \udcff byte"))
    assert codec.decode(sent) == End(run=1, outcome="failed", detail="bad ? byte")
