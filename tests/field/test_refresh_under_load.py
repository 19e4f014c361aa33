"""Every kind of live change, one after the other, under a steady mixed load: nobody but whom it concerns notices."""

import asyncio
import contextlib
import copy
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.agents import python
from tests.fakes.fake_up import LAST_CHUNK, Exchange, FakeUp, chunk, event, healthy, response, stream_head
from tests.fakes.mixed_load import KEY, RESPONSE, STREAM, WHOLE, MixedLoad, mixed_load
from tests.fakes.refreshing import refresh
from tests.fakes.stack import Engine, Stack, _start_node, stack

SAY_ONE = python("import sys; sys.stdin.read(); print('one', end='')")
SAY_TWO = python("import sys; sys.stdin.read(); print('two', end='')")
MODELS = [
    {"id": "m", "providers": {"p1": "m", "p2": "m", "p3": "m"}},
    {"id": "solo", "providers": {"p2": "solo-on-p2"}},
    {"id": "spare", "providers": {"p1": "m"}},
    {"id": "agent", "direct": {"node": "n1", "adapter": "cli", "target": "agent"}},
]
CLIENTS = {
    "m": [(STREAM, WHOLE), (RESPONSE,), (WHOLE, STREAM), (STREAM,), (WHOLE, RESPONSE), (STREAM, RESPONSE)],
    "solo": [(WHOLE, STREAM), (STREAM,)],
    "spare": [(WHOLE,)],
    "agent": [(WHOLE,)],
}
STEADY = ("m", "solo", "agent")


async def serve(exchange: Exchange) -> None:
    """A short answer in the way that was asked for, not in one go."""
    await asyncio.sleep(0)
    if not exchange.json.get("stream"):
        return await exchange.send(response(200, b'{"object": "chat.completion", "id": "resp_1", "choices": []}'))
    await exchange.send(stream_head() + chunk(event({"n": 1})))
    await asyncio.sleep(0.01)
    return await exchange.send(chunk(event("[DONE]")) + LAST_CHUNK)


class Story:
    """The stack under load, its file, and the next chapter."""

    def __init__(self, s: Stack, load: MixedLoad, folder: Path) -> None:
        self.s, self.load, self.folder = s, load, folder
        self.path = folder / "edge.yaml"
        self.data: dict[str, Any] = yaml.safe_load(self.path.read_text())
        self.generation = 1

    def node(self, name: str) -> dict[str, Any]:
        """A node of the file."""
        return next(node for node in self.data["nodes"] if node["id"] == name)

    def model(self, name: str) -> dict[str, Any]:
        """A model of the file."""
        return next(model for model in self.data["models"] if model["id"] == name)

    async def apply(self, *kinds: str) -> None:
        """Apply the file: exactly these kinds of change, one generation more, and the load goes on."""
        self.path.write_text(yaml.safe_dump(self.data))
        code, body = await refresh(self.s.ready["admin"], self.path, "--timeout", "60s")
        assert code == 0, body
        assert sorted(change["kind"] for change in body["changes"]) == sorted(kinds)
        self.generation += bool(kinds)
        assert self.s.status()["config"]["generation"] == self.generation
        assert all(node["acknowledged"] for node in body["nodes"])
        await self.load.moves_on(*STEADY)

    async def ready(self, provider: str) -> None:
        """Wait until a provider takes work."""
        await self.s.until(
            lambda status: any(
                one["provider_id"] == provider and one["state"] == "ready" and one["admitted"]
                for one in status["provider_snapshots"]
            )
        )


async def resize(story: Story, _up: FakeUp) -> None:
    """Capacity down to one, up to five, and back; the engine is never over it."""
    for capacity in (1, 5, 2):
        story.node("n1")["providers"][0]["capacity"] = capacity
        await story.apply("resized")


async def nothing(story: Story, _up: FakeUp) -> None:
    """The same file is nothing to do, twice."""
    await story.apply()
    await story.apply()


async def provider_comes_and_goes(story: Story, up: FakeUp) -> None:
    """An engine with its provider joins a node, works, and leaves again."""
    instance = {"name": "e9", "enabled": True, "provider": "other", "endpoint": up.url}
    provider = {"id": "p9", "type": "other", "category": "local_inference", "adapter": "e9", "capacity": 2}
    story.node("n2")["adapters"]["openai_compat_instances"].append(instance)
    story.node("n2")["providers"].append(provider)
    story.model("m")["providers"]["p9"] = "m"
    await story.apply("added", "added", "rerouted")
    await story.ready("p9")
    story.node("n2")["adapters"]["openai_compat_instances"].pop()
    story.node("n2")["providers"].pop()
    del story.model("m")["providers"]["p9"]
    await story.apply("removed", "removed", "rerouted")
    await story.s.until(lambda status: "p9" not in [one["provider_id"] for one in status["provider_snapshots"]])


async def reroute_and_rename(story: Story, _up: FakeUp) -> None:
    """A model leaves a provider and comes back; on another its name changes: new work has the new name."""
    del story.model("m")["providers"]["p3"]
    await story.apply("rerouted")
    story.model("m")["providers"]["p3"] = "m"
    await story.apply("rerouted")
    story.model("solo")["providers"]["p2"] = "renamed-on-p2"
    await story.apply("rerouted")
    names = [one.json["model"] for one in story.s.ups[1].requests if one.json["model"] != "m"]
    assert names[-1] == "renamed-on-p2"
    assert names == sorted(names, reverse=True)  # never the old name after the new one


async def change_endpoint(story: Story, up: FakeUp) -> None:
    """A provider's engine is another one from now on; what ran on the old one ended there."""
    instance = story.node("n1")["adapters"]["openai_compat_instances"][1]
    before, seen = instance["endpoint"], len(up.requests)
    instance["endpoint"] = up.url
    await story.apply("changed")
    assert len(up.requests) > seen  # `solo` has no other provider
    instance["endpoint"] = before
    await story.apply("changed")


async def node_comes_and_goes(story: Story, up: FakeUp) -> None:
    """A node is added, connects, works, and is taken out again."""
    instance = {"name": "e8", "enabled": True, "provider": "other", "endpoint": up.url}
    provider = {"id": "p8", "type": "other", "category": "local_inference", "adapter": "e8", "capacity": 2}
    adapters = {"openai_compat_instances": [instance]}
    story.data["nodes"].append({"id": "n8", "adapters": adapters, "providers": [provider]})
    story.model("m")["providers"]["p8"] = "m"
    await story.apply("added", "added", "rerouted")
    async with contextlib.AsyncExitStack() as parts:
        await _start_node(story.folder, parts, "n8", story.s)
        await story.ready("p8")
        story.data["nodes"].pop()
        del story.model("m")["providers"]["p8"]
        await story.apply("removed", "removed", "rerouted")
        await story.s.until(lambda status: "p8" not in [one["provider_id"] for one in status["provider_snapshots"]])


async def model_comes_and_goes(story: Story, _up: FakeUp) -> None:
    """A new model is served at once; a removed one is 404 for its clients, and for them only."""
    story.data["models"].append({"id": "new", "providers": {"p3": "m"}})
    await story.apply("added")
    assert await story.load._ask("new", WHOLE) == 200
    spare = story.model("spare")
    story.data["models"].remove(spare)
    assert set(story.load.got["spare"]) == {200}
    await story.apply("removed")
    await story.load.moves_on("spare")
    assert story.load.got["spare"][-1] == 404
    story.data["models"].append(spare)
    await story.apply("added")
    await story.load.moves_on("spare")
    answers = story.load.got.pop("spare")
    gone = answers.index(404)
    assert set(answers[gone : len(answers) - answers[::-1].index(404)]) == {404}  # from the removal to the return
    assert answers[-1] == 200


async def bounds_and_keys(story: Story, _up: FakeUp) -> None:
    """Bounds of the line and times change; keys come (the clients have one) and go."""
    story.data["queue"] = {"max_waiting": 50, "max_wait": "10m"}
    story.data["stream"] = {"idle_timeout": "4m"}
    await story.apply("changed", "changed", "changed")
    story.data["auth"] = {"api_keys": [{"name": "t", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}
    await story.apply("added")
    assert (await story.s.post()).code == "invalid_api_key"
    del story.data["auth"]
    await story.apply("removed")
    assert (await story.s.post()).status == 200


async def change_agent(story: Story, _up: FakeUp) -> None:
    """A CLI target's program is another one from now on."""
    assert (
        "one" in (await story.s.post({"model": "agent", "messages": [{"role": "user", "content": "x"}]})).body.decode()
    )
    story.node("n1")["adapters"]["cli"]["targets"]["agent"]["command"] = list(SAY_TWO)
    await story.apply("changed")
    assert (
        "two" in (await story.s.post({"model": "agent", "messages": [{"role": "user", "content": "x"}]})).body.decode()
    )


async def move_provider(story: Story, _up: FakeUp) -> None:
    """A provider moves to another node under its own id, and back."""
    before = copy.deepcopy(story.data)
    instance = story.node("n2")["adapters"]["openai_compat_instances"].pop()
    provider = story.node("n2")["providers"].pop()
    story.node("n1")["adapters"]["openai_compat_instances"].append(instance)
    story.node("n1")["providers"].append(provider)
    await story.apply("added", "added", "removed", "removed")
    story.data = before
    await story.apply("added", "added", "removed", "removed")


CHAPTERS: tuple[Callable[[Story, FakeUp], Awaitable[None]], ...] = (
    resize, nothing, provider_comes_and_goes, reroute_and_rename, change_endpoint,
    node_comes_and_goes, model_comes_and_goes, bounds_and_keys, change_agent, move_provider,
)  # fmt: skip


async def test_every_kind_of_change_under_load(tmp_path: Path) -> None:
    """No failed request but those of a removed model, order kept, every generation acknowledged, no engine overrun."""
    engines = Engine(serve, capacity=2), Engine(serve), Engine(serve, node="n2")
    async with (
        FakeUp(serve, probe=healthy) as up,
        stack(tmp_path, *engines, agents={"agent": SAY_ONE}, models=MODELS, drain_timeout="1m") as s,
    ):
        async with mixed_load(s, CLIENTS) as load:
            story = Story(s, load, tmp_path)
            await load.moves_on(*CLIENTS)
            for chapter in CHAPTERS:
                await chapter(story, up)
        assert load.bad() == {}
        assert_in_order(s)
        assert all(engine.hwm <= most for engine, most in zip((*s.ups, up), (5, 1, 1, 2), strict=True))


def assert_in_order(s: Stack) -> None:
    """Those who waited for a model got their slots in the order in which they came.

    Left out are requests that a refresh took back between grant and start: they are in line for a second time.
    """
    events = s.edge._core.feed.events_after(0)
    back = {told.request_id for told in events if told.type == "returned"}
    for model in ("m", "solo"):
        waited = [told.request_id for told in events if (told.type, told.model) == ("queued", model)]
        granted = [told.request_id for told in events if (told.type, told.model) == ("granted", model)]
        in_line = [one for one in granted if one in set(waited) - back]
        assert len(in_line) > 10
        assert in_line == [one for one in waited if one not in back]
