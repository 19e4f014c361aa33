"""The error tree."""

import pytest

from iop.domain import errors
from iop.domain.errors import IopError


def _tree() -> list[type[IopError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, IopError)]


@pytest.mark.parametrize(
    ("kind", "status", "type_", "code"),
    [
        (errors.BadRequest, 400, "invalid_request_error", "invalid_body"),
        (errors.Unauthorized, 401, "invalid_request_error", "invalid_api_key"),
        (errors.NotFound, 404, "invalid_request_error", "model_not_found"),
        (errors.MethodNotAllowed, 405, "invalid_request_error", "method_not_allowed"),
        (errors.BodyTooLarge, 413, "invalid_request_error", "body_too_large"),
        (errors.UnsupportedEncoding, 415, "invalid_request_error", "unsupported_encoding"),
        (errors.UpgradeNotSupported, 426, "invalid_request_error", "upgrade_not_supported"),
        (errors.QueueFull, 429, "rate_limit_error", "queue_full"),
        (errors.UpstreamError, 502, "server_error", "upstream_unreachable"),
        (errors.Unavailable, 503, "server_error", "no_provider_available"),
        (errors.UpstreamTimeout, 504, "server_error", "upstream_timeout"),
    ],
)
def test_each_error_has_the_status_and_type_of_the_interface(
    kind: type[IopError], status: int, type_: str, code: str
) -> None:
    """Status, OpenAI type and default code are those of the interface's table."""
    error = kind("words")
    assert (error.status, error.type, error.code, str(error)) == (status, type_, code, "words")


def test_the_table_above_is_the_whole_tree() -> None:
    """A new error needs its line in the table of this test: there are eleven kinds and their root."""
    assert len(_tree()) == 12


def test_code_param_and_retry_after_are_kept() -> None:
    """What the maker of an error says of it is carried to the floor that renders it."""
    error = errors.Unavailable("later", code="queue_timeout", param="model", retry_after=3)
    assert (error.code, error.param, error.retry_after) == ("queue_timeout", "model", 3)
