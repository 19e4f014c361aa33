"""Running an agent on somebody's machine is not for every key: models that a key does not list look unknown to it."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agents import python
from tests.fakes.stack import CHAT, RESPONSES, Engine, answer_ok, stack

BODIES = {CHAT: {"messages": [{"role": "user", "content": "x"}]}, RESPONSES: {"input": "x"}}


def key(name: str, *models: str) -> dict[str, Any]:
    """An API key whose secret is its name."""
    listed = {"models": list(models)} if models else {}
    return {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), **listed}


@pytest.mark.parametrize("path", BODIES)
async def test_an_agent_is_for_the_keys_that_list_it(tmp_path: Path, path: str) -> None:
    """Both ways round: the agent is unknown to the key of the pool model, the pool model to the key of the agent."""
    auth = {"api_keys": [key("pool-key", "m"), key("agent-key", "agent"), key("any-key")]}
    started = tmp_path / "started"
    agent = python(f"open({str(started)!r}, 'a').write('x'); print('hi')")
    async with stack(tmp_path, Engine(answer_ok), agents={"agent": agent}, checks_request=False, auth=auth) as s:
        seen = {}
        for secret in ("pool-key", "agent-key", "any-key"):
            for model in ("m", "agent"):
                answer = await s.post({"model": model, **BODIES[path]}, path, f"Authorization: Bearer {secret}")
                seen[secret, model] = answer.status, (answer.json.get("error") or {}).get("code")
        refused, good = (404, "model_not_found"), (200, None)
        assert seen == {
            ("pool-key", "m"): good,
            ("pool-key", "agent"): refused,
            ("agent-key", "m"): refused,
            ("agent-key", "agent"): good,
            ("any-key", "m"): good,
            ("any-key", "agent"): good,
        }
        assert started.read_text() == "xx"
        await s.idle()
