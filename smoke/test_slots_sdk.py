"""The official `openai` SDK, unmodified, against the Edge; it takes slots (see scheduling.py)."""

from typing import TYPE_CHECKING

from smoke.holding import see
from smoke.rounds import Bench

if TYPE_CHECKING:
    from openai import OpenAI

PROMPT = "Say hello in a few words."


def test_official_sdk(bench: Bench) -> None:
    """The SDK lists the models and reads chat and responses, streamed and not."""
    from openai import DefaultHttpxClient, OpenAI  # here, since it takes a second that only this case needs

    model, url = bench.env.smoke_model, bench.reach.openai
    http = DefaultHttpxClient(trust_env=False, timeout=900.0)
    with OpenAI(base_url=url, api_key=bench.key or "none", max_retries=0, http_client=http) as client:
        models = [entry.id for entry in client.models.list().data]
        texts = {
            "chat": _chat(client, model),
            "chat stream": _chat_stream(client, model),
            "responses": client.responses.create(model=model, input=PROMPT, max_output_tokens=32).output_text,
            "responses stream": _responses_stream(client, model),
        }
    see(bench, "sdk", "sdk", {"models": models, "texts": texts})


def _chat(client: "OpenAI", model: str) -> str:
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": PROMPT}], max_tokens=32
    )  # fmt: skip
    return answer.choices[0].message.content or ""


def _chat_stream(client: "OpenAI", model: str) -> str:
    with client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": PROMPT}], max_tokens=32, stream=True
    ) as chunks:
        return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def _responses_stream(client: "OpenAI", model: str) -> str:
    with client.responses.create(model=model, input=PROMPT, max_output_tokens=32, stream=True) as events:
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")
