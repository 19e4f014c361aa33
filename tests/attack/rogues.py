"""A node with the right to be there and bad manners: what it does to a request that it was given, and to the Edge."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx

from iop.link.frames import MAX_CONTROL, MAX_PIECE
from iop.link.messages import (
    AdapterInfo,
    Bye,
    Credit,
    End,
    Head,
    Ping,
    Pong,
    ProviderHealth,
    Ready,
    RunningWork,
    TargetInfo,
)
from tests.attack.target import Target
from tests.fakes.link_peers import FakeNode, hello

ID, PROVIDER, MODEL = "rogue", "rogue-p", "trap"
VICTIM = "gx10-vllm"
LONG = "x" * 900_000
EVENT = b'data: {"choices": []}\n\n'

Deed = Callable[[FakeNode, int], Awaitable[None]]


@contextlib.asynccontextmanager
async def rogue(target: Target, **said: object) -> AsyncIterator[FakeNode]:
    """A connected, ready node `rogue` of two slots behind the model `trap`; `said` are further words of its hello."""
    config = target.config()
    engine = {"name": "e", "enabled": True, "provider": "other", "endpoint": "http://127.0.0.1:9/v1"}
    provider = {"id": PROVIDER, "type": "other", "category": "local_inference", "adapter": "e", "capacity": 2}
    config["nodes"].append({"id": ID, "adapters": {"openai_compat_instances": [engine]}, "providers": [provider]})
    config["models"].append({"id": MODEL, "providers": {PROVIDER: "m"}})
    await target.apply(config)
    node = await FakeNode.join(target.address("nodes"), hello(ID, token=None, **said))
    node.send(ProviderHealth(provider_id=PROVIDER, up=True))
    try:
        yield node
    finally:
        await node.close()
        await target.apply(target.config())
        await target.cluster.status_where(
            lambda s: all(p["provider_id"] != PROVIDER for p in s["provider_snapshots"]), "the rogue's provider is gone"
        )


async def ask(target: Target) -> httpx.Response:
    """A request to the rogue's model; one that was cut in the middle comes back as a 502."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    try:
        return await target.cluster.client.post(f"{target.cluster.openai}/chat/completions", json=body)
    except httpx.RemoteProtocolError as cut:
        assert "incomplete" in str(cut)  # noqa: PT017  (said to the client as a cut, and not as a whole answer)
        return httpx.Response(502, headers={"x-request-id": ""})


@dataclass(frozen=True)
class Lie:
    """`told`: what the client may be told. `stays`: the link is not closed for it."""

    name: str
    do: Deed
    told: tuple[int, ...]
    stays: bool = True


def _head(status: int) -> Deed:
    async def do(node: FakeNode, run: int) -> None:
        node.send(Head(run=run, status=status))
        node.answer(run)

    return do


async def _injects(node: FakeNode, run: int) -> None:
    evil = {
        "content-type": "application/json\r\nX-Evil: 1", "x-evil": "1", "set-cookie": "a=b", "content-length": "5",
        "transfer-encoding": "chunked", "connection": "upgrade", "upgrade": "h2c", "x-iop-provider": VICTIM,
        "x-iop-node": "mac-codex-node", "x-request-id": "forged", "retry-after\r\nx-evil": "2", "openai-é": "ü",
        "cache-control": "a\x00b", "access-control-allow-origin": "*", "location": "http://evil.example",
    }  # fmt: skip
    node.send(Head(run=run, status=200, headers=tuple(evil.items())))
    node.answer(run)


async def _huge_head(node: FakeNode, run: int) -> None:
    node.send(Head(run=run, status=200, headers=tuple((f"openai-{n}", "v" * 4000) for n in range(200))))
    node.answer(run)


async def _no_head(node: FakeNode, run: int) -> None:
    node.send_body(run, b"{}", end=True)
    node.send(End(run=run, outcome="completed"))


async def _twice(node: FakeNode, run: int) -> None:
    for _ in range(3):
        node.answer(run)


async def _after_end(node: FakeNode, run: int) -> None:
    node.answer(run)
    node.send_body(run, b"more", end=True)
    node.send(Head(run=run, status=500))
    node.send(Credit(run=run, bytes=1))


async def _beyond_credit(node: FakeNode, run: int) -> None:
    for _ in range(40):  # without a head nobody reads, so that no credit comes
        node.send_body(run, bytes(MAX_PIECE))


async def _gigantic_frame(node: FakeNode, run: int) -> None:
    node.writer.write((MAX_CONTROL + 1).to_bytes(4, "big") + b"\x00")


async def _floods(node: FakeNode, run: int) -> None:
    target = TargetInfo(name="t", kind="k", ready=False, reason="\x1b[31m" + "r" * 2000)
    info = AdapterInfo(name="wild", type="cli", max_concurrency=10**300, targets=(target,) * 50)
    for number in range(60):
        node.send(Ready(generation=10**300 if number % 2 else -1, adapters=(info,) * 3))
        node.send(ProviderHealth(provider_id=PROVIDER, up=True, reason=LONG[:10_000]))
        node.send(ProviderHealth(provider_id=VICTIM, up=False, reason="not mine"))
        node.send(ProviderHealth(provider_id=f"p{number}", up=False))
        node.send(End(run=number + 1000, outcome="failed", failure="x"))
        node.send(Head(run=-number, status=200))
        node.send_body(number + 1000, b"x")
    node.answer(run)


async def _ends_with_a_book(node: FakeNode, run: int) -> None:
    node.send(End(run=run, outcome="failed", failure=LONG[:400_000], detail=LONG[:400_000]))


async def _pings(node: FakeNode, run: int) -> None:
    for number in range(5000):
        node.send(Ping(n=number - 10**18))
    node.answer(run)


async def _wrong_pong(node: FakeNode, run: int) -> None:
    node.send(Pong(n=10**300))


async def _too_much_credit(node: FakeNode, run: int) -> None:
    node.send(Credit(run=run, bytes=10**300))


async def _negative_credit(node: FakeNode, run: int) -> None:
    node.send(Credit(run=run, bytes=-1))


async def _after_bye(node: FakeNode, run: int) -> None:
    node.send(Bye())
    node.answer(run)


async def _hello_again(node: FakeNode, run: int) -> None:
    node.send(hello(ID, token=None))


async def _speaks_as_the_edge(node: FakeNode, run: int) -> None:
    node.writer.write(b"\x00\x00\x00\x17\x00" + b'{"type":"going_away"}  ')


async def _unknown_type(node: FakeNode, run: int) -> None:
    node.writer.write(b"\x00\x00\x00\x10\x00" + b'{"type":"owned"}')


async def _leaves(node: FakeNode, run: int) -> None:
    node.writer.transport.abort()


GONE = (502, 503)
LIES = [
    *[
        Lie(f"status {status}", _head(status), GONE, stays=False)
        for status in (-1, 0, 99, 100, 101, 199, 1000, 10**300)
    ],
    *[Lie(f"status {status} with a body", _head(status), (status,)) for status in (200, 204, 205, 304, 418, 500, 799)],
    Lie("headers that are none of its business", _injects, (200,)),
    Lie("a head of 800 KB", _huge_head, (200,)),
    Lie("an answer without a head", _no_head, (502,)),
    Lie("three answers", _twice, (200,)),
    Lie("more after the end", _after_end, (200,)),
    Lie("more than it has credit for", _beyond_credit, GONE, stays=False),
    Lie("a frame over its limit", _gigantic_frame, GONE, stays=False),
    Lie("a flood of wild news", _floods, (200,)),
    Lie("an end as long as a book", _ends_with_a_book, (502,)),
    Lie("a flood of pings", _pings, (200,)),
    Lie("a pong nobody asked for", _wrong_pong, GONE, stays=False),
    Lie("credit for what was never sent", _too_much_credit, GONE, stays=False),
    Lie("negative credit", _negative_credit, GONE, stays=False),
    Lie("an answer after its goodbye", _after_bye, GONE, stays=False),
    Lie("a second hello", _hello_again, GONE, stays=False),
    Lie("a message of the Edge", _speaks_as_the_edge, GONE, stays=False),
    Lie("a message of no kind", _unknown_type, GONE, stays=False),
    Lie("an abort", _leaves, GONE, stays=False),
]

#: work that nobody gave it: others' providers, the same thing many times, numbers of no run
CLAIMS = (
    *(RunningWork(run=n, request_id=f"r{n}", adapter="e", provider_id=VICTIM) for n in range(1, 50)),
    *(RunningWork(run=7, request_id="same", adapter="e", provider_id=PROVIDER) for _ in range(20)),
    *(RunningWork(run=n, request_id="d", adapter="cli") for n in (-(10**300), -1, 0, 2**32, 10**300)),
    RunningWork(run=3, request_id="x" * 10_000, adapter="e", provider_id="nobody's"),
)
