"""The errors admission makes."""

import pytest

from iop.domain import refusals
from iop.domain.errors import IopError


@pytest.mark.parametrize(
    ("error", "status", "code", "words"),
    [
        (refusals.queue_full(3), 429, "queue_full", ("3", "queue.max_waiting")),
        (refusals.key_queue_full(2), 429, "queue_full", ("2", "auth.api_keys[].max_waiting")),
        (refusals.queue_timeout(1.5), 503, "queue_timeout", ("1.5s", "queue.max_wait")),
        (
            refusals.no_provider_available("m", None, 30.0, {"p": "reset"}),
            503,
            "no_provider_available",
            ("'m'", "30s", "queue.offline_grace", "p: reset"),
        ),
        (
            refusals.no_provider_available("m", "p", 30.0, {}),
            503,
            "no_provider_available",
            ("'p'", "30s", "queue.offline_grace", "has not come back"),
        ),
        (refusals.response_owner_gone("p"), 404, "previous_response_not_found", ("'p'", "whole conversation")),
        (refusals.shutting_down(), 503, "shutting_down", ("drain_timeout",)),
        (refusals.model_gone("m"), 404, "model_not_found", ("'m'",)),
        (refusals.provider_gone("p"), 404, "not_found", ("'p'",)),
        (
            refusals.unreachable("m", {"p": "unreachable", "q": "link_lost"}),
            502,
            "upstream_unreachable",
            ("'m'", "p: unreachable", "q: link_lost"),
        ),
    ],
)
def test_each_error_names_its_limit_and_knob(error: IopError, status: int, code: str, words: tuple[str, ...]) -> None:
    """Status and code are the interface's, and the message tells which limit was met and which knob sets it."""
    assert (error.status, error.code) == (status, code)
    assert all(word in error.message for word in words)


def test_429_and_503_tell_when_to_try_again() -> None:
    """Retry-After is a whole number of seconds, at least 1, exactly where the interface asks for it."""
    for error in (refusals.queue_full(1), refusals.key_queue_full(1), refusals.queue_timeout(1.0)):
        assert isinstance(error.retry_after, int)
        assert error.retry_after >= 1
    assert (refusals.no_provider_available("m", "p", 1.0, {}).retry_after or 0) >= 1
    assert (refusals.shutting_down().retry_after or 0) >= 1
    assert refusals.unreachable("m", {}).retry_after is None
