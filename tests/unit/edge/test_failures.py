"""A run's end as the client's error."""

import pytest

from iop.edge.failures import late_answer, to_error
from iop.link.messages import End


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        ("timeout", 504, "upstream_timeout"),
        ("agent_failed", 502, "agent_failed"),
        ("busy", 503, "no_provider_available"),
        ("stopping", 503, "node_draining"),
        ("unreachable", 502, "upstream_unreachable"),
        ("reset", 502, "upstream_unreachable"),
        ("link_lost", 502, "upstream_unreachable"),
        ("shutting_down", 503, "shutting_down"),
        ("broken", 502, "upstream_broken"),
        (None, 502, "upstream_broken"),
    ],
)
def test_each_failure_has_its_code(failure: str | None, status: int, code: str) -> None:
    """Every failure kind of the link is one row of the interface's table of errors."""
    error = to_error(End(run=1, outcome="failed", failure=failure, detail="because"), "Provider p")

    assert (error.status, error.code) == (status, code)


def test_the_detail_reaches_the_message() -> None:
    """People learn who failed and why."""
    error = to_error(End(run=1, outcome="failed", failure="agent_failed", detail="not logged in"), "Node n")

    assert error.message == "The agent on Node n failed: not logged in."


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (429, b'{"error": {"message": "slow down"}}', ("rate_limit_error", "upstream_broken", "slow down")),
        (404, b'{"detail": "no"}', ("invalid_request_error", "upstream_broken", "no")),
        (500, b"<html>", ("server_error", "upstream_broken", "Provider p answered with status 500.")),
        (400, b'{"error": {"message": "m", "type": "t", "code": 7}}', ("t", "7", "m")),
        (200, b'{"error": "loading"}', ("server_error", "upstream_broken", "loading")),
        (
            200,
            b'{"choices": []}',
            ("server_error", "upstream_broken", "Provider p did not answer with a stream (x/y)."),
        ),
    ],
)
def test_a_late_answer_keeps_the_engines_words(status: int, body: bytes, told: tuple[str, str, str]) -> None:
    """Message, type and code are the engine's where it has them; else what its status means."""
    error = late_answer(status, "x/y", body, "Provider p")

    assert (error.type, error.code, error.message) == told
