"""How a run's end is told to the client: the failure kinds of the link as errors of the interface."""

from iop.domain.errors import IopError, Unavailable, UpstreamError, UpstreamTimeout
from iop.link.messages import End


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
