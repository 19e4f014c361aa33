"""iop's own failures in OpenAI's error shape."""

import json

import pytest

from iop.domain.errors import BadRequest, QueueFull, Unauthorized, Unavailable, UpstreamError
from iop.openai.errors import MAX_MESSAGE, envelope, error_object, headers


def test_error_object_has_the_four_members():
    """Every error has message, type, param and code, absent ones as null."""
    error = BadRequest("no `model`", code="missing_model", param="model")
    assert error_object(error) == {
        "message": "no `model`",
        "type": "invalid_request_error",
        "param": "model",
        "code": "missing_model",
    }
    assert json.loads(envelope(UpstreamError("gone")))["error"] == {
        "message": "gone",
        "type": "server_error",
        "param": None,
        "code": "upstream_unreachable",
    }


def test_any_text_can_be_sent():
    """Half a surrogate pair or a huge name quoted in a message never makes the error itself fail."""
    sent = json.loads(envelope(BadRequest("模\ud800\x00")))
    assert sent["error"]["message"] == "模\ud800\x00"
    long = json.loads(envelope(BadRequest("x" * 1_000_000)))["error"]["message"]
    assert len(long) == MAX_MESSAGE
    assert long.endswith("…")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BadRequest("x"), None),
        (UpstreamError("x"), None),
        (UpstreamError("x", retry_after=7), "7"),
        (QueueFull("x", retry_after=3), "3"),
        (QueueFull("x", retry_after=0), "1"),
        (QueueFull("x"), "1"),
        (Unavailable("x"), "1"),
    ],
)
def test_retry_after(error, expected):
    """429 and 503 always carry Retry-After, a whole number of at least one second."""
    found = dict(headers(error))
    assert found.get("Retry-After") == expected
    assert found["Content-Type"] == "application/json"


def test_unauthorized_names_the_scheme():
    """A 401 says which authentication is expected (RFC 9110 11.6.1)."""
    assert dict(headers(Unauthorized("x")))["WWW-Authenticate"] == "Bearer"
