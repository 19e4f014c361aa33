"""Field case B26: Codex asks /v1/models for another shape than the SDKs do."""

from pathlib import Path

import pytest
from openai import AsyncOpenAI

from tests.fakes.agents import python
from tests.fakes.stack import Engine, answer_ok, stack

ECHO = python("import sys; print(sys.stdin.read(), end='')")
CODEX = "User-Agent: codex_exec/0.155.1 (Debian 12.0.0; x86_64)"


async def test_b26_codex_finds_a_models_list_and_no_made_up_metadata(tmp_path: Path) -> None:
    """Field case B26: asked with client_version, the list has `models` beside OpenAI's own fields, and it is empty."""
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": ECHO}) as s:
        plain = (await s.get("/v1/models")).json
        codex = await s.get("/v1/models?client_version=0.155.1", headers=(CODEX,))

        assert (codex.status, codex.headers["content-type"]) == (200, "application/json")
        assert codex.json == {**plain, "models": []}
        assert [model["id"] for model in codex.json["data"]] == ["m", "agent"]
        assert s.totals("received") == (0,)


@pytest.mark.parametrize("headers", [(), (CODEX,)], ids=["sdk", "codex"])
async def test_b26_without_client_version_the_list_is_strictly_openais(
    tmp_path: Path, headers: tuple[str, ...]
) -> None:
    """Field case B26: who does not ask for another shape gets none, whatever the program calls itself."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        listed = (await s.get("/v1/models", headers=headers)).json

        assert set(listed) == {"object", "data"}
        assert [set(model) for model in listed["data"]] == [{"id", "object", "created", "owned_by"}]


async def test_b26_the_sdk_reads_the_list_and_each_of_its_models(tmp_path: Path) -> None:
    """Field case B26: the official SDK pages through the list and fetches what it names."""
    async with (
        stack(tmp_path, Engine(answer_ok), agents={"agent": ECHO}) as s,
        AsyncOpenAI(base_url=s.base_url, api_key="none", max_retries=0) as client,
    ):
        listed = [model async for model in client.models.list()]

        assert [(model.id, model.object, model.owned_by) for model in listed] == [
            ("m", "model", "iop"),
            ("agent", "model", "iop"),
        ]
        assert [await client.models.retrieve(model.id) for model in listed] == listed


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/models", "/v1/chat/completions", "/anything"])
async def test_b26_a_websocket_attempt_is_refused_at_once(tmp_path: Path, path: str) -> None:
    """Field case B26's neighbour: versions of Codex that try a WebSocket are told to POST, without a slot or a wait."""
    upgrade = ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    async with stack(tmp_path, Engine(answer_ok)) as s:
        answer = await s.get(path, headers=(CODEX, *upgrade, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))

        assert (answer.status, answer.code) == (426, "upgrade_not_supported")
        assert "POST" in answer.json["error"]["message"]
        assert s.totals("received") == (0,)
