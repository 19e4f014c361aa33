"""Field case B35: model ids with slashes, capitals, tags and other letters; aliases; ids that are missing."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from openai import AsyncOpenAI

from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, chat, stack

#: public id -> the engine's own name
IDS = {
    "org/name": "org/name",
    "org/name:tag": "org/name:tag",
    "Org/Name": "Org/Name",
    "org//name": "org//name",
    "alias": "vendor/Real-Name-v1.5",
    "models": "models",
    "openai/gpt-4o": "openai/gpt-4o",
    "50%": "50%",
    "a+b&c=d": "a+b&c=d",
    "модель-é": "модель-é",
}
MODELS = [{"id": "m", "providers": {"p1": "m"}}, *({"id": id_, "providers": {"p1": IDS[id_]}} for id_ in IDS)]

NEAR_MISSES = ("org", "name", "ORG/NAME", "org/Name", "Alias", "alias ", " alias", "vendor/Real-Name-v1.5", "org/name/")


async def test_b35_what_is_listed_can_be_fetched_and_used(tmp_path: Path) -> None:
    """Field case B35: a listed id is found raw and percent-encoded, and the engine gets its very own name for it."""
    async with stack(tmp_path, Engine(answer_ok), models=MODELS) as s:
        listed = {entry["id"]: entry for entry in (await s.get("/v1/models")).json["data"]}
        assert list(listed) == ["m", *IDS]
        for model, name in IDS.items():
            for spelling in (quote(model, safe="/"), quote(model, safe="")):
                found = await s.get(f"/v1/models/{spelling}")
                assert (spelling, found.status, found.json) == (spelling, 200, listed[model])
            for path in (CHAT, RESPONSES):
                answer = await s.post(chat(model=model), path)
                assert (answer.status, s.up.requests[-1].json["model"]) == (200, name)


async def test_b35_the_sdk_lists_fetches_and_uses_each_id(tmp_path: Path) -> None:
    """Field case B35: the official SDK spells an id in its own way (%2F), and finds what it listed."""
    async with (
        stack(tmp_path, Engine(answer_ok), models=MODELS) as s,
        AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0) as client,
    ):
        listed = [model.id async for model in client.models.list()]
        assert [(await client.models.retrieve(id_)).id for id_ in listed] == listed == ["m", *IDS]
        for model in listed:
            await client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
        assert [exchange.json["model"] for exchange in s.up.requests] == ["m", *IDS.values()]


async def test_b35_a_near_miss_is_not_found(tmp_path: Path) -> None:
    """Field case B35: nothing is folded, trimmed or cut: another spelling is another model, and there is none."""
    async with stack(tmp_path, Engine(answer_ok), models=MODELS) as s:
        for model in NEAR_MISSES:
            answer = await s.post(chat(model=model))
            assert (model, answer.status, answer.code) == (model, 404, "model_not_found")
            assert answer.json["error"]["param"] == "model"
            assert repr(model) in answer.json["error"]["message"]
            found = await s.get(f"/v1/models/{quote(model, safe='')}")
            forgiven = model == "org/name/"  # a slash at the end of a path is one of the spellings that are forgiven
            assert (model, found.status, found.json.get("id")) == (
                model,
                *((200, "org/name") if forgiven else (404, None)),
            )
        assert s.totals("received") == (0,)


async def test_b35_a_missing_model_is_told_as_such(tmp_path: Path) -> None:
    """Field case B35: absent, empty or no string is a 400 that names the parameter; no engine hears of it."""
    named: list[dict[str, Any]] = [{}, *({"model": value} for value in ("", None, 42, [], {}, True))]
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for model in named:
            for path in (CHAT, RESPONSES):
                answer = await s.post({**model, "messages": [], "input": "hi"}, path)
                assert (model, answer.status, answer.code) == (model, 400, "missing_model")
                assert answer.json["error"]["param"] == "model"
        assert s.up.requests == []


async def test_b35_ids_that_differ_in_case_keep_their_own_providers(tmp_path: Path) -> None:
    """Field case B35: two ids that differ by case are two models, each with its own engine and line."""
    models = [
        {"id": "m", "providers": {"p1": "m", "p2": "m"}},
        {"id": "Org/Model", "providers": {"p1": "first"}},
        {"id": "org/model", "providers": {"p2": "second"}},
    ]
    async with stack(tmp_path, Engine(answer_ok), Engine(answer_ok), models=models) as s:
        for model, provider in (("Org/Model", "p1"), ("org/model", "p2")) * 2:
            assert (await s.post(chat(model=model))).headers["x-iop-provider"] == provider

        assert [[exchange.json["model"] for exchange in up.requests] for up in s.ups] == [["first"] * 2, ["second"] * 2]
        assert [model["id"] for model in s.status()["models"]] == ["m", "Org/Model", "org/model"]
