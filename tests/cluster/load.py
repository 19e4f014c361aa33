"""Requests against a cluster, recorded: what was sent, what came, which headers it had."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.cluster.harness import Cluster

PATHS = {"chat": "/chat/completions", "responses": "/responses"}


@dataclass
class Answer:
    """One answer as the client saw it. `error` is set for a broken connection or an error event in the stream."""

    request_id: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    error: str | None = None

    @property
    def ok(self) -> bool:
        """A whole, successful answer."""
        return self.status == 200 and self.error is None


def payload(endpoint: str, *, tokens: int, stream: bool, model: str = "pool", content: str = "hello") -> dict[str, Any]:
    """The JSON of a request for `tokens` tokens."""
    if endpoint == "chat":
        body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": tokens}
    else:
        body = {"model": model, "input": content, "max_output_tokens": tokens}
    return {**body, "stream": stream}


async def send(cluster: Cluster, body: dict[str, Any], endpoint: str, request_id: str) -> Answer:
    """Send one request and read its whole answer."""
    headers = {"x-request-id": request_id}
    try:
        response = await cluster.client.post(cluster.openai + PATHS[endpoint], json=body, headers=headers)
    except httpx.HTTPError as error:
        return Answer(request_id, 0, error=repr(error))
    answer = Answer(request_id, response.status_code, dict(response.headers), response.text)
    for line in response.text.splitlines():
        if line.startswith("data:") and line[5:].strip() != "[DONE]" and "error" in (event := json.loads(line[5:])):
            answer.error = answer.error or json.dumps(event["error"]) if event["error"] else answer.error
    return answer


async def burst(cluster: Cluster, count: int, endpoint: str, *, tokens: int, stream: bool = True) -> list[Answer]:
    """Send `count` requests at once and return all answers."""
    body = payload(endpoint, tokens=tokens, stream=stream)
    return await asyncio.gather(*(send(cluster, body, endpoint, f"{endpoint}-{n}") for n in range(count)))
