"""Reading a request as an engine does: what is asked for, or the OpenAI error that says what is wrong."""

import json
from dataclasses import dataclass
from typing import Any, Literal

Operation = Literal["chat.completions", "responses"]

#: tokens of an answer whose request sets no limit
DEFAULT_TOKENS = 16
_LIMITS = {"chat.completions": ("max_completion_tokens", "max_tokens"), "responses": ("max_output_tokens",)}
_INPUT = {"chat.completions": "messages", "responses": "input"}


class Refused(Exception):
    """A request this engine does not run; `body` is the answer's JSON."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


@dataclass(frozen=True, slots=True)
class Asked:
    """One readable request. `limited` = the number of tokens is the request's own limit."""

    operation: Operation
    model: str
    stream: bool
    tokens: int
    limited: bool
    include_usage: bool
    prompt_tokens: int


def read(operation: Operation, body: bytes, models: tuple[str, ...]) -> Asked:
    """Read a request body. Raises Refused."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}", code="invalid_json") from error
    if not isinstance(fields, dict):
        raise Refused(400, "the body is not a JSON object", code="invalid_json")
    model, prompt = fields.get("model"), fields.get(_INPUT[operation])
    if model not in models:
        raise Refused(404, f"The model `{model}` does not exist.", code="model_not_found", param="model")
    if not isinstance(prompt, str if operation == "responses" and not isinstance(prompt, list) else list):
        raise Refused(400, f"'{_INPUT[operation]}' is missing or of the wrong type", param=_INPUT[operation])
    tokens = _limit(operation, fields)
    return Asked(
        operation=operation,
        model=str(model),
        stream=fields.get("stream") is True,
        tokens=DEFAULT_TOKENS if tokens is None else tokens,
        limited=tokens is not None,
        include_usage=_option(fields.get("stream_options"), "include_usage"),
        prompt_tokens=len(json.dumps(prompt).split()),
    )


def _limit(operation: Operation, fields: dict[str, Any]) -> int | None:
    for name in _LIMITS[operation]:
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Refused(400, f"'{name}' must be an integer >= 1", param=name)
        return value
    return None


def _option(options: object, name: str) -> bool:
    return isinstance(options, dict) and options.get(name) is True
