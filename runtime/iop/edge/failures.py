"""How a run's end is told to the client: the failure kinds of the link as errors of the interface."""

from iop.domain.errors import IopError, Unavailable, UpstreamError, UpstreamTimeout
from iop.link.messages import End
from iop.openai.told_errors import is_error, told_error

#: error types by an engine's status, where they are no `server_error` or `invalid_request_error`
_TYPES = {429: "rate_limit_error"}


def to_error(end: End, who: str) -> IopError:
    """Return the error for a run that ended without a whole answer. `who` names the provider or node for people."""
    detail = f": {end.detail}" if end.detail else ""
    match end.failure:
        case "timeout":
            return UpstreamTimeout(f"{who} did not answer in time{detail}.")
        case "agent_failed":
            return UpstreamError(f"The agent on {who} failed{detail}.", code="agent_failed")
        case "busy":
            return Unavailable(f"{who} has no free place{detail}.", retry_after=1)
        case "stopping":
            return Unavailable(f"{who} is stopping{detail}.", code="node_draining", retry_after=2)
        case "unreachable" | "reset" | "link_lost":
            return UpstreamError(f"{who} could not be reached ({end.failure}){detail}.")
        case "shutting_down":
            return Unavailable("The server is shutting down.", code="shutting_down", retry_after=2)
        case _:
            return UpstreamError(f"{who} broke off before its answer was whole{detail}.", code="upstream_broken")


class EngineError(IopError):
    """An engine's own error answer that came too late to be one: its stream was open. `status` is the engine's."""

    def __init__(self, status: int, message: str, *, kind: str, code: str | None, param: str | None) -> None:
        super().__init__(message, code=code or "upstream_broken", param=param)
        self.status = status
        self.type = kind


def late_answer(status: int, content_type: str, body: bytes, who: str) -> IopError:
    """Return the error for an answer that is no stream, to be told in one: the engine's own words where it has any."""
    if status < 400 and not is_error(body):
        return UpstreamError(f"{who} did not answer with a stream ({content_type[:80]}).", code="upstream_broken")
    told = told_error(content_type, body)
    message = told.message or f"{who} answered with status {status}."
    kind = told.type or _TYPES.get(status) or ("invalid_request_error" if 400 <= status < 500 else "server_error")
    return EngineError(status, message, kind=kind, code=told.code, param=told.param)
