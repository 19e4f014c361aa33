"""The errors admission makes: each names the limit that was met and the knob that sets it.

Retry-After values (seconds) are hints: a slot may be free a moment later, a lost provider takes longer to come back.
"""

from collections.abc import Mapping

from iop.domain.errors import IopError, NotFound, QueueFull, Unavailable, UpstreamError

_SOON = 1
_LATER = 5


def queue_full(limit: int) -> IopError:
    """429: `queue.max_waiting` requests wait already."""
    return QueueFull(
        f"The line is full: {limit} requests may wait (queue.max_waiting: {limit}). Try again later.",
        retry_after=_SOON,
    )


def key_queue_full(limit: int) -> IopError:
    """429: as many requests of this API key wait as it may have in line."""
    return QueueFull(
        f"The line is full for this API key: {limit} of its requests may wait (auth.api_keys[].max_waiting: {limit}). "
        "Try again later.",
        retry_after=_SOON,
    )


def bytes_full(limit: int) -> IopError:
    """429: the bodies of the requests that are here fill `queue.max_bytes`."""
    return QueueFull(
        f"The line is full: the bodies of waiting requests may hold {limit} bytes (queue.max_bytes: {limit}). "
        "Try again later.",
        retry_after=_SOON,
    )


def queue_timeout(max_wait: float) -> IopError:
    """503: no slot became free in `queue.max_wait` seconds."""
    return Unavailable(
        f"No slot became free within {max_wait:g}s (queue.max_wait: {max_wait:g}s). Try again later.",
        code="queue_timeout",
        retry_after=_SOON,
    )


def no_provider_available(model: str, only: str | None, grace: float, failures: Mapping[str, str]) -> IopError:
    """503: every provider of the model, or the `only` one that will do, stayed offline or down for
    `queue.offline_grace` seconds.
    """
    subject = f"Every provider of model '{model}' is offline or down, and none"
    if only is not None:
        subject = f"Provider '{only}', the only one that can serve this request, is offline or down, and it has not"
    verb = "came back" if only is None else "come back"
    tried = f" Tried before: {_list(failures)}." if failures else ""
    return Unavailable(
        f"{subject} {verb} within {grace:g}s (queue.offline_grace: {grace:g}s).{tried} Try again later.",
        code="no_provider_available",
        retry_after=_LATER,
    )


def shutting_down() -> IopError:
    """503: this Edge takes no new work, or its `drain_timeout` is over."""
    text = "This Edge is shutting down: it takes no new requests, and what runs or waits has drain_timeout to finish."
    return Unavailable(text, code="shutting_down", retry_after=_LATER)


def model_gone(model: str) -> IopError:
    """404: no such pool model (any more)."""
    return NotFound(f"The model '{model}' does not exist.", code="model_not_found", param="model")


def provider_gone(provider_id: str) -> IopError:
    """404: no such provider (any more)."""
    return NotFound(f"The provider '{provider_id}' does not exist.", code="not_found")


def response_owner_gone(provider_id: str) -> IopError:
    """404: the provider that made the previous response is not there any more, or serves the model no longer."""
    return NotFound(
        f"The previous response was made by provider '{provider_id}', which does not serve this model any more. "
        "Send the whole conversation without previous_response_id.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def unreachable(model: str, failures: Mapping[str, str]) -> IopError:
    """502: every candidate was tried (or is gone) without an HTTP status from its engine."""
    return UpstreamError(
        f"No provider of model '{model}' could be reached: {_list(failures) or 'none is configured'}.",
        code="upstream_unreachable",
    )


def _list(failures: Mapping[str, str]) -> str:
    return ", ".join(f"{provider_id}: {kind}" for provider_id, kind in failures.items())
