"""schemathesis against both ports of a running Edge, with what `/openapi.json` says: every check, bounded examples."""

import asyncio
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.attack.target import EXAMPLES, LONG, Target

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: 502, 503 and 504 are answers of the interface; an engine refuses what it cannot use with a 400 of its own
CONFIG = """
[checks]
not_a_server_error = { expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504] }
positive_data_acceptance = { expected-statuses = ["2xx", 400, 401, 403, 404, 409, 415, 422, 502, 503, 504] }
"""
KEY = "sk-attack-0123456789"


async def _document(target: Target, port: str, *, guarded: bool) -> dict[str, Any]:
    """What the port serves, told which models and providers there are, and that no engine answers otherwise here."""
    document: dict[str, Any] = await target.cluster.get(f"{target.cluster.at(port)}/openapi.json")
    schemas = document["components"]["schemas"]
    for name, field in (("ChatRequest", "messages"), ("ResponsesRequest", "input")):
        schemas[name]["properties"]["model"] = {"enum": ["pool", "agent"]}
        said = {field: [{"role": "user", "content": "hi"}]}
        schemas[name]["examples"] = [{"model": "pool", "stream": True} | said, {"model": "agent"} | said]
    for path, entry in document["paths"].items():
        if path.startswith("/providers/"):
            entry["parameters"][0]["schema"] = {"enum": [*target.cluster.capacities, "nobody"]}
        for operation in entry.values():
            if isinstance(operation, dict):
                operation["responses"].pop("default", None)
    if guarded:
        document["security"] = [{"apiKey": []}]
    return document


async def _run(target: Target, folder: Path, port: str, token: str | None) -> None:
    (folder / "schemathesis.toml").write_text(CONFIG, encoding="utf-8")
    document = await _document(target, port, guarded=token == KEY)
    (folder / "openapi.json").write_text(json.dumps(document), encoding="utf-8")
    options = [
        "--max-examples",
        str(EXAMPLES),
        "--workers",
        "1",
        "--request-timeout",
        "60",
        "--no-color",
        "--suppress-health-check",
        "all",
    ]
    options += [] if LONG else ["--generation-deterministic"]
    # a drain may be ended twice, and a stream of events has no end
    options += ["--exclude-checks", "use_after_free", "--exclude-path", "/events"] if port == "admin" else []
    options += ["-H", f"Authorization: Bearer {token}"] if token is not None else []
    program = (str(Path(sys.executable).with_name("schemathesis")), "--config-file", "schemathesis.toml", "run")
    child = await asyncio.create_subprocess_exec(
        *program, "openapi.json", "--url", target.cluster.at(port), "--checks", "all", *options,
        cwd=folder, env={**os.environ, "NO_PROXY": "127.0.0.1"}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await child.communicate()
    assert child.returncode == 0, said.decode(errors="replace")[-8000:]


@pytest.mark.parametrize("port", ["openai", "admin"])
async def test_the_edge_does_what_it_says(target: Target, tmp_path: Path, port: str) -> None:
    """Each answer has a status, a body, headers and a type that are described; what the schema forbids is refused."""
    await _run(target, tmp_path, port, target.token if port == "admin" else None)


async def test_with_keys_nobody_gets_in_without_one(target: Target, tmp_path: Path) -> None:
    """The OpenAI port with keys in its config: the same holds, and every operation that needs a key refuses without."""
    keys = {"auth": {"api_keys": [{"name": "k", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}}
    await target.apply(target.config() | keys)
    try:
        await _run(target, tmp_path, "openai", KEY)
    finally:
        await target.apply(target.config())
