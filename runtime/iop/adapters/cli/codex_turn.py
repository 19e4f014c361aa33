"""One turn with `codex app-server` as JSON-RPC messages, without I/O: messages in, messages out and what was said."""

import json
from collections.abc import Iterator
from typing import Any

from iop import __version__
from iop.adapters.cli.agent import MAX_REASON, AgentFailedError, Said
from iop.adapters.cli.codex_words import Messages, Settings, usage_of
from iop.openai.answers import Usage

CLIENT = {"name": "iop", "title": "iop", "version": __version__}
_INITIALIZE, _THREAD, _TURN, _INTERRUPT = 1, 2, 3, 4
_METHOD_NOT_FOUND = -32601
_TOKENS = ("inputTokens", "outputTokens", "cachedInputTokens", "reasoningOutputTokens")

#: answers to what Codex asks a person: nobody is there, so nothing is allowed and the turn goes on
_REFUSALS: dict[str, dict[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "item/tool/call": {"contentItems": [], "success": False},
    "mcpServer/elicitation/request": {"action": "decline", "content": None},
    "execCommandApproval": {"decision": "denied"},
    "applyPatchApproval": {"decision": "denied"},
}


class Turn:
    """Asks one prompt in a thread of its own that leaves no session file.

    What is to be sent gathers in `outgoing`; `done` is True after a turn that completed well.
    """

    def __init__(self, prompt: str, cwd: str | None, settings: Settings) -> None:
        self._prompt = prompt
        self._cwd = cwd
        self._settings = settings
        self._thread: str | None = None
        self._turn: str | None = None
        self._messages = Messages()
        self._usage: Usage | None = None
        self._last_error: str | None = None
        self.done = False
        self.outgoing = bytearray()
        self._ask(_INITIALIZE, "initialize", {"clientInfo": CLIENT})

    def receive(self, message: dict[str, Any]) -> Iterator[Said]:
        """Take one message of the server. Raises AgentFailedError with the reason when the turn has failed."""
        method, number = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if isinstance(method, str) and number is not None:
            self._send(answer_to(method, number))
        elif isinstance(method, str):
            yield from self._told(method, params)
        elif isinstance(number, int):
            self._answered(number, message)

    def interrupt(self) -> bool:
        """Ask Codex to stop the turn; False when there is none to stop."""
        if self._turn is None or self.done:
            return False
        self._ask(_INTERRUPT, "turn/interrupt", {"threadId": self._thread, "turnId": self._turn})
        return True

    def take(self) -> bytes:
        """Return what is to be sent, once."""
        data = bytes(self.outgoing)
        self.outgoing.clear()
        return data

    def _answered(self, number: int, message: dict[str, Any]) -> None:
        if "error" in message:
            raise AgentFailedError(reason(message["error"]))
        result = message.get("result")
        result = result if isinstance(result, dict) else {}
        if number == _INITIALIZE:
            self._send({"method": "initialized"})
            self._ask(_THREAD, "thread/start", self._thread_params())
        elif number == _THREAD:
            self._thread = _id_of(result.get("thread"))
            asked = [{"type": "text", "text": self._prompt}]
            self._ask(_TURN, "turn/start", {"threadId": self._thread, "input": asked})
        elif number == _TURN:
            self._turn = _id_of(result.get("turn"))

    def _told(self, method: str, params: dict[str, Any]) -> Iterator[Said]:
        match method:
            case "item/agentMessage/delta":
                yield from self._messages.delta(str(params.get("itemId")), str(params.get("delta", "")))
            case "item/completed":
                item = params.get("item")
                if isinstance(item, dict) and item.get("type") == "agentMessage":
                    yield from self._messages.whole(str(item.get("id")), str(item.get("text", "")))
            case "thread/tokenUsage/updated":
                known = params.get("tokenUsage")  # of the thread, whose one turn may have asked its model often
                total = known.get("total") if isinstance(known, dict) else None
                self._usage = usage_of(total, _TOKENS) or self._usage
            case "error":
                self._last_error = reason(params.get("error"))
                if params.get("willRetry"):
                    yield from self._messages.cut()
            case "turn/completed":
                yield from self._completed(params.get("turn"))

    def _completed(self, turn: object) -> Iterator[Said]:
        turn = turn if isinstance(turn, dict) else {}
        status = turn.get("status")
        if status != "completed":
            told = reason(turn["error"]) if turn.get("error") else self._last_error
            raise AgentFailedError(told or f"the turn ended as {status}")
        if not self._messages.any:
            raise AgentFailedError("the turn ended without a message")
        self.done = True
        if self._usage is not None:
            yield self._usage

    def _thread_params(self) -> dict[str, Any]:
        params = {
            "cwd": self._cwd,
            "ephemeral": True,
            "sandbox": self._settings.sandbox,
            "approvalPolicy": self._settings.approval,
        }
        return {name: value for name, value in params.items() if value is not None}

    def _ask(self, number: int, method: str, params: dict[str, Any]) -> None:
        self._send({"id": number, "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        self.outgoing += line(message)


def line(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent: one line, ASCII only."""
    return json.dumps(message).encode() + b"\n"


def answer_to(method: str, number: object) -> dict[str, Any]:
    """Return the answer to a request of the server: a refusal, or that iop does not know the method."""
    if method in _REFUSALS:
        return {"id": number, "result": _REFUSALS[method]}
    return {"id": number, "error": {"code": _METHOD_NOT_FOUND, "message": f"iop does not serve {method}"}}


def reason(error: object) -> str:
    """Return what an error object of Codex says, for the client."""
    if not isinstance(error, dict):
        return "the agent failed without a reason"
    message, details = str(error.get("message") or ""), str(error.get("additionalDetails") or "")
    told = f"{message} ({details})" if message and details else message or details
    return told[:MAX_REASON] or "the agent failed without a reason"


def _id_of(thing: object) -> str:
    found = thing.get("id") if isinstance(thing, dict) else None
    if not isinstance(found, str):
        raise AgentFailedError("the agent's app-server answered without an id; is this version of Codex supported?")
    return found
