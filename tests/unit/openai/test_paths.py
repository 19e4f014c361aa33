"""Spellings of paths that clients send, and the path that is named for a wrong one."""

import pytest

from iop.openai.paths import clean_path, methods, model_id, not_found, right_path


@pytest.mark.parametrize(
    ("sent", "clean"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("//v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1//responses//", "/v1/responses"),
        ("/v1/models/", "/v1/models"),
        ("/v1/models//", "/v1/models"),
        ("//v1/models/org/name", "/v1/models/org/name"),
        ("/v1/models/org//name/", "/v1/models/org//name"),
        ("/", "/"),
        ("//", "/"),
        ("", "/"),
        ("/V1/models", "/V1/models"),
    ],
)
def test_accepted_spellings(sent, clean):
    """B36: doubled and trailing slashes are accepted; an id keeps its own slashes (B35)."""
    assert clean_path(sent) == clean
    assert clean_path(clean) == clean


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/v1/completions", "/v1/chat/completions"),
        ("/api/v1/Responses/", "/v1/responses"),
        ("/models", "/v1/models"),
        ("/v1/v1/models", "/v1/models"),
        ("/v1/v1/models/Org/Name", "/v1/models/Org/Name"),
        ("/health", "/healthz"),
        ("/v1/readyz", "/readyz"),
        ("/v1/embeddings", None),
        ("/", None),
        ("/v1", None),
    ],
)
def test_right_path_is_named(wrong, right):
    """B36: a 404 names the path that was meant, or all there are."""
    assert right_path(wrong) == right
    error = not_found(wrong)
    assert (error.status, error.code) == (404, "not_found")
    assert (right or "POST /v1/responses") in error.message


def test_hostile_paths_are_quoted_safely():
    """Half a surrogate pair, control characters or a huge path do not break the message."""
    message = not_found("/models/\ud800\n" + "x" * 5000).message
    assert len(message) < 1000
    assert message.isascii()


def test_model_ids_and_methods():
    """The id behind /v1/models/ is taken whole; each public path knows its methods."""
    assert model_id("/v1/models/org/name:tag") == "org/name:tag"
    assert model_id("/v1/models") is None
    assert methods("/v1/models/x") == methods("/v1/models") == ("GET", "HEAD")
    assert methods("/v1/responses") == ("POST",)
    assert methods("/v1/embeddings") == ()
