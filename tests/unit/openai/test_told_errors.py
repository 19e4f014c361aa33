"""Error answers of engines, in all their shapes."""

import pytest

from iop.openai.told_errors import MAX_TEXT, ToldError, is_error, told_error


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":{"message":"m","type":"t","code":"c","param":"p"}}', ToldError("m", "t", "c", "p")),
        (b'{"error":{"code":400,"message":"m","type":"invalid_request_error"}}',
         ToldError("m", "invalid_request_error", "400")),
        (b'{"object":"error","message":"m","type":"BadRequestError","param":null,"code":404}',
         ToldError("m", "BadRequestError", "404")),
        (b'{"error":null,"message":"m"}', ToldError("m")),
        (b'{"error":"text"}', ToldError("text")),
        (b'{"detail":[{"loc":["body"]}]}', ToldError('[{"loc": ["body"]}]')),
        (b'{"detail":"Not Found"}', ToldError("Not Found")),
        (b'"just words"', ToldError("just words")),
        (b'{"error":{}}', ToldError()),
        (b"null", ToldError()),
        (b"", ToldError()),
        (b" Internal Server Error\n", ToldError("Internal Server Error")),
        (b"<html><body>502</body></html>", ToldError()),
        (b"\xff\xfe", ToldError("��")),
        (b"[" * 100_000, ToldError("[" * MAX_TEXT)),
    ],
)  # fmt: skip
def test_each_shape_is_read(body: bytes, told: ToldError) -> None:
    """Nothing raises, a code that is a number becomes text, and a page of HTML tells nothing."""
    assert told_error("application/json", body) == told


def test_html_is_known_by_its_type() -> None:
    """A page that does not begin with a tag is a page."""
    assert told_error("text/html; charset=utf-8", b"Oops <br>") == ToldError()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error": {"message": "m"}}', True),
        (b'{"object": "error"}', True),
        (b'{"error": null, "choices": []}', False),
        (b"[]", False),
        (b"no json", False),
    ],
)
def test_an_error_with_a_good_status_is_known(body: bytes, expected: bool) -> None:
    """Some engines tell an error under 200."""
    assert is_error(body) is expected
