"""The OpenAPI documents against the routes, the page, a validator, and the answers of a living Edge."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from iop.domain import errors
from iop.edge.admin_routes import build_admin_app
from iop.edge.description import description
from iop.openai.paths import METHODS
from iop.transport.hosts import HostRule
from iop.wiring.edge import CHECKS
from tests.fakes import pages
from tests.fakes.raw_client import Answer
from tests.fakes.stack import CHAT, Engine, Stack, answer_ok, chat, stack

HTTP = pages.text_of("docs/reference/http-api.md")
PORTS = {port: json.loads(description(port)) for port in ("openai", "admin")}
HEADINGS = {"openai": "## OpenAI API (18083)", "admin": "## Edge admin API (19093)"}


def operations(port: str) -> dict[str, dict[str, Any]]:
    """Each operation of a document, as `GET /path`."""
    return {
        f"{method.upper()} {path}": operation
        for path, entry in PORTS[port]["paths"].items()
        for method, operation in entry.items()
        if method in {"get", "put", "post", "delete", "patch", "head", "options", "trace"}
    }


def schema(port: str, name: str) -> Draft202012Validator:
    """The validator of one schema of a document, references within it included."""
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": PORTS[port]["components"]})


@pytest.mark.parametrize("port", PORTS)
def test_a_known_validator_accepts_the_document(port: str) -> None:
    """It is OpenAPI 3.1, also in what JSON Schema asks of it."""
    validate(PORTS[port])


def test_the_openai_document_has_each_route_and_no_other() -> None:
    """The table of public paths, and the models by their id."""
    public = {f"{method} {path}" for path, methods in METHODS.items() for method in methods if method != "HEAD"}
    assert set(operations("openai")) == public | {"GET /v1/models/{id}"}


def test_the_admin_document_has_each_route_and_no_other() -> None:
    """What the router answers, and the checks that are added to it."""
    app = build_admin_app(None, HostRule())  # type: ignore[arg-type]  # only its routes are looked at
    routes = {f"{route.method} {route.resource.canonical}" for route in app.router.routes() if route.resource}
    checks = {f"POST /providers/{{id}}/v1/{path}" for path in CHECKS}
    assert set(operations("admin")) == {name for name in routes if not name.startswith("HEAD ")} | checks


@pytest.mark.parametrize("port", PORTS)
def test_the_page_has_the_same_routes(port: str) -> None:
    """Each operation stands in the table of its port on the reference page, and each of the table's in the document."""
    routes = {
        span
        for row in pages.rows(HTTP, HEADINGS[port])
        for span in re.findall(r"`((?:GET|PUT|POST|DELETE) [^`]+)`", row[0])
    }
    drain = {"DELETE /nodes/{id}/drain"} if port == "admin" else set()
    assert routes | drain == set(operations(port))


def test_every_error_of_the_interface_is_described() -> None:
    """Each status and code that iop makes stands in a response of some operation, and no other code does."""
    outline = re.findall(r"^ {6}\w+ +(\d{3}) +([a-z_ ]+)$", errors.__doc__ or "", re.MULTILINE)
    wanted = {(status, code) for status, codes in outline for code in codes.split() if status != "405"}
    told = set()
    for port, document in PORTS.items():
        for operation in operations(port).values():
            for status, response in operation["responses"].items():
                if status < "400":
                    continue
                for code in re.findall(r'"code": {"enum": (\[[^]]*\])', _resolved(document, response)):
                    told |= {(status, each) for each in json.loads(code)}
    assert told == wanted


def _resolved(document: dict[str, Any], value: Any) -> str:
    """The JSON of a value with every reference followed."""

    def follow(found: Any) -> Any:
        if isinstance(found, dict) and "$ref" in found:
            target: Any = document
            for name in found["$ref"].removeprefix("#/").split("/"):
                target = target[name]
            return follow(target)
        if isinstance(found, dict):
            return {key: follow(inner) for key, inner in found.items()}
        return [follow(inner) for inner in found] if isinstance(found, list) else found

    return json.dumps(follow(value))


def test_answers_with_a_retry_after_say_so() -> None:
    """429 and 503 carry it, 401 its challenge, everything its request id."""
    for port, document in PORTS.items():
        for name, operation in operations(port).items():
            for status, response in operation["responses"].items():
                if status == "default":
                    continue
                headers = json.loads(_resolved(document, response))["headers"]
                assert "x-request-id" in headers, (name, status)
                assert ("Retry-After" in headers) is (status in {"429", "503"}), (name, status)
                assert ("WWW-Authenticate" in headers) is (status == "401"), (name, status)


async def _admin(s: Stack, folder: Path, line: str, body: Any = None) -> Answer:
    token = (folder / "admin.token").read_text(encoding="utf-8").strip()
    client = await s.connect("admin")
    sent = b"" if body is None else json.dumps(body).encode()
    head = (f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", "Content-Type: application/json")
    await client.send("\r\n".join((*head, f"Content-Length: {len(sent)}", "", "")).encode() + sent)
    return await client.answer()


async def test_a_living_edge_serves_it_and_keeps_to_it(tmp_path: Path) -> None:
    """Both ports serve their document, to anybody who may see the health; status, refresh, drain and errors fit."""
    async with stack(tmp_path, Engine(answer_ok), auth={"api_keys": [{"name": "k", "sha256": "0" * 64}]},
                     checks_request=False) as s:  # fmt: skip
        for port, document in PORTS.items():
            answer = await s.get("/openapi.json", port)
            assert (answer.status, answer.json) == (200, document)
        refused = await s.post(chat(), CHAT)
        assert refused.status == 401
        schema("openai", "UnauthorizedError").validate(refused.json)
        assert (await s.get("/openapi.yaml")).code == "not_found"

        schema("admin", "Status").validate((await s.get("/status", "admin")).json)
        text = (tmp_path / "edge.yaml").read_text(encoding="utf-8")
        refresh = {"mode": "dry-run", "config": text, "source": str(tmp_path / "edge.yaml")}
        for config, status in ((text, 200), (text.replace("m", "µ"), 422)):
            answer = await _admin(s, tmp_path, "POST /config/refresh", refresh | {"config": config})
            assert answer.status == status
            schema("admin", "RefreshAnswer").validate(answer.json)
        answer = await _admin(s, tmp_path, "PUT /nodes/n1/drain", {"lease_s": 60, "by": "me"})
        schema("admin", "Drain").validate(answer.json)
        schema("admin", "Status").validate((await s.get("/status", "admin")).json)
        schema("admin", "Drain").validate((await _admin(s, tmp_path, "DELETE /nodes/n1/drain")).json)


async def test_a_foreign_host_does_not_get_it(tmp_path: Path) -> None:
    """It is open like the health, and as that only under a name of this server."""
    async with stack(tmp_path, Engine(answer_ok)) as s:
        for port in PORTS:
            client = await s.connect(port)
            await client.send(b"GET /openapi.json HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert (await client.answer()).code == "invalid_host"
        schema("openai", "ModelList").validate((await s.get("/v1/models")).json)
        schema("openai", "Model").validate((await s.get("/v1/models/m")).json)
