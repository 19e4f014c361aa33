"""The official OpenAI SDK over real llama.cpp servers."""

from collections.abc import AsyncIterator

import httpx
import openai
import pytest

from tests.cluster.harness import DEADLINE, Cluster


@pytest.fixture
async def sdk(pool: Cluster) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client whose base URL is the pool; it does not try again, so that nothing is hidden."""
    http = httpx.AsyncClient(trust_env=False, timeout=DEADLINE)
    async with openai.AsyncOpenAI(base_url=pool.openai, api_key="none", max_retries=0, http_client=http) as client:
        yield client


async def test_every_call_of_the_sdk(pool: Cluster, sdk: openai.AsyncOpenAI) -> None:
    """Chat and responses, whole and streamed, give a real server's text; an unknown model is not found."""
    hello = [{"role": "user", "content": "hello"}]
    assert [model.id async for model in sdk.models.list()] == ["pool", "agent"]

    chat = await sdk.chat.completions.create(model="pool", messages=hello, max_tokens=12)
    assert chat.usage is not None
    assert (chat.usage.completion_tokens, bool(chat.choices[0].message.content)) == (12, True)
    chunks = [
        chunk
        async for chunk in await sdk.chat.completions.create(
            model="pool", messages=hello, max_tokens=12, stream=True, stream_options={"include_usage": True}
        )
    ]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices).isascii()
    assert [c.usage.completion_tokens for c in chunks if c.usage] == [12]

    whole = await sdk.responses.create(model="pool", input="hello", max_output_tokens=12)
    assert whole.output_text
    events = [
        event
        async for event in await sdk.responses.create(model="pool", input="hello", max_output_tokens=12, stream=True)
    ]
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == events[-1].response.output_text
    async with sdk.responses.stream(model="pool", input="hello", max_output_tokens=12) as stream:
        deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        assert (await stream.get_final_response()).output_text == "".join(deltas) != ""
    with pytest.raises(openai.NotFoundError, match="nothing"):  # llama.cpp itself answers for any name
        await sdk.chat.completions.create(model="nothing", messages=hello)
    await pool.calm()
