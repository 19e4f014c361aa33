"""The prompt of a CLI agent, made from the messages of a request. Text only: an agent has no other way in."""

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from iop.domain.errors import BadRequest
from iop.openai.paths import Operation

_TEXT_PARTS = ("text", "input_text", "output_text")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def prompt_text(body: bytes, operation: Operation) -> str:
    """Return the prompt: exactly the text of a single user message, else blocks `role: text` with an empty line
    between them. The text parts of one message are joined by a line end; half a surrogate pair becomes U+FFFD.

    Raises `BadRequest` (`invalid_body`) for NUL, for parts that are not text, and where there is no message.
    """
    request = _load(body)
    field = "messages" if operation == "chat.completions" else "input"
    given = request.get(field)
    blocks: list[tuple[str, str]] = []
    if operation == "responses":
        blocks += _instructions(request.get("instructions"))
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        _refuse(f"`{field}` must hold at least one message.", field)
    blocks += [_block(item, f"{field}[{place}]") for place, item in enumerate(given)]
    prompt = blocks[0][1] if [role for role, _ in blocks] == ["user"] else _joined(blocks)
    if "\0" in prompt:
        _refuse("The text holds a NUL character, which a command-line agent cannot read.", field)
    return _HALF_PAIR.sub("\ufffd", prompt)


def include_usage(body: bytes) -> bool:
    """Return whether a chat request asks for a usage chunk (`stream_options.include_usage`)."""
    options = _load(body).get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _load(body: bytes) -> dict[str, Any]:
    """Read a body that `read_request` has accepted; numbers are of no interest, and int() refuses very long ones."""
    try:
        request = json.loads(body.decode(), parse_int=float)
    except (ValueError, RecursionError):
        raise BadRequest("The request body is not valid JSON.", code="invalid_json") from None
    if not isinstance(request, dict):
        _refuse("The request body must be a JSON object.", None)
    return request


def _instructions(value: object) -> list[tuple[str, str]]:
    if value is None or value == "":
        return []
    if not isinstance(value, str):
        _refuse("`instructions` must be a string.", "instructions")
    return [("system", value)]


def _block(item: object, where: str) -> tuple[str, str]:
    """Read one message as (role, text)."""
    if not isinstance(item, dict):
        _refuse(f"`{where}` must be a message object.", where)
    kind = item.get("type", "message")
    if kind != "message":
        _refuse(f"`{where}` has type {_shown(kind)}; a command-line agent takes messages of text only.", where)
    role = item.get("role")
    if not isinstance(role, str) or not role:
        _refuse(f"`{where}.role` must be a non-empty string.", f"{where}.role")
    if item.get("tool_calls") or item.get("function_call"):
        _refuse(f"`{where}` holds tool calls; a command-line agent takes messages of text only.", where)
    content = item.get("content")
    if isinstance(content, str):
        return role, content
    if not isinstance(content, list):
        _refuse(f"`{where}.content` must be a string or a list of text parts.", f"{where}.content")
    return role, "\n".join(_part(part, f"{where}.content[{place}]") for place, part in enumerate(content))


def _part(part: object, where: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else part
    if not isinstance(part, dict) or kind not in _TEXT_PARTS:
        _refuse(f"`{where}` is a part of type {_shown(kind)}; supported are text, input_text and output_text.", where)
    text = part.get("text")
    if not isinstance(text, str):
        _refuse(f"`{where}.text` must be a string.", where)
    return text


def _joined(blocks: Iterable[tuple[str, str]]) -> str:
    return "\n\n".join(f"{role}: {text}" for role, text in blocks)


def _shown(kind: object) -> str:
    return json.dumps(kind)[:80] if isinstance(kind, str) else "that is not a string"


def _refuse(message: str, param: str | None) -> NoReturn:
    raise BadRequest(message, code="invalid_body", param=param)
