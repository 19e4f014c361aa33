"""Whole answers in the shapes of the two APIs, made from text: for CLI agents and the simulator.

Ids and times are arguments (`created` in Unix seconds), so that the same input gives the same answer.
"""

from dataclasses import dataclass
from typing import Any, Literal

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer; `cached_tokens` are a part of the input, `reasoning_tokens` of the output."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said: the text, why it ended (`length` = cut by a token bound), and the tokens if they are known."""

    text: str
    reason: FinishReason = "stop"
    usage: Usage | None = None


def chat_usage(usage: Usage) -> dict[str, Any]:
    """Return `usage` in the names of the chat API."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def response_usage(usage: Usage) -> dict[str, Any]:
    """Return `usage` in the names of the responses API."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def chat_completion(completion_id: str, model: str, created: int, answer: Answer) -> dict[str, Any]:
    """Return a whole chat completion with one choice; `usage` is left out when the tokens are not known."""
    completion: dict[str, Any] = {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": answer.text, "refusal": None},
                "logprobs": None,
                "finish_reason": answer.reason,
            }
        ],
    }
    if answer.usage is not None:
        completion["usage"] = chat_usage(answer.usage)
    return completion


def response_skeleton(response_id: str, model: str, created: int, status: str = "in_progress") -> dict[str, Any]:
    """Return a response object without output, with every member that OpenAI's clients require."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }


def text_part(text: str) -> dict[str, Any]:
    """Return the one content part of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message_item(response_id: str, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    """Return the one output item of a response; its id follows from the response's."""
    item_id = "msg_" + response_id.removeprefix("resp_")
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def response(response_id: str, model: str, created: int, answer: Answer) -> dict[str, Any]:
    """Return a whole response with one message; cut by length it is `incomplete` and says so."""
    status = "completed" if answer.reason == "stop" else "incomplete"
    whole = response_skeleton(response_id, model, created, status)
    whole["output"] = [message_item(response_id, [text_part(answer.text)], status)]
    if status == "incomplete":
        whole["incomplete_details"] = {"reason": "max_output_tokens"}
    if answer.usage is not None:
        whole["usage"] = response_usage(answer.usage)
    return whole
