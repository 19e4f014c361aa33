"""Only listed headers travel."""

import pytest

from iop.openai.headers import MAX_HEADERS, answer_headers, request_headers, valid_request_id


def test_client_headers_are_an_allow_list():
    """Credentials, cookies, Host, lengths, codings and hop-by-hop headers stay at the Edge."""
    sent = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Accept", "text/event-stream"),
        ("User-Agent", "codex_exec/0.171.0"),
        ("OpenAI-Beta", "responses=v1"),
        ("traceparent", "00-abc-def-01"),
        ("Authorization", "Bearer secret"),
        ("api-key", "secret"),
        ("x-api-key", "secret"),
        ("Cookie", "a=b"),
        ("Host", "pool"),
        ("Content-Length", "3"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Encoding", "zstd"),
        ("Accept-Encoding", "br"),
        ("Connection", "keep-alive"),
        ("Expect", "100-continue"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("x-iop-provider", "spoof"),
    ]
    assert request_headers(sent) == (
        ("content-type", "application/json; charset=utf-8"),
        ("accept", "text/event-stream"),
        ("user-agent", "codex_exec/0.171.0"),
        ("openai-beta", "responses=v1"),
        ("traceparent", "00-abc-def-01"),
    )


def test_engine_headers_are_an_allow_list():
    """Type, retry advice and rate limits pass; cookies, lengths, codings, Server and iop's own names do not."""
    sent = [
        ("Content-Type", "text/event-stream"),
        ("Retry-After", "2"),
        ("Cache-Control", "no-cache"),
        ("X-RateLimit-Remaining-Requests", "9"),
        ("openai-processing-ms", "12"),
        ("Set-Cookie", "a=b"),
        ("Content-Length", "3"),
        ("Content-Encoding", "br"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Server", "uvicorn"),
        ("Date", "today"),
        ("x-request-id", "theirs"),
        ("x-iop-provider", "spoof"),
        ("Access-Control-Allow-Origin", "*"),
    ]
    assert answer_headers(sent) == (
        ("content-type", "text/event-stream"),
        ("retry-after", "2"),
        ("cache-control", "no-cache"),
        ("x-ratelimit-remaining-requests", "9"),
        ("openai-processing-ms", "12"),
    )


def test_what_connection_names_stays():
    """A listed header that Connection names is for that hop only."""
    assert answer_headers([("Connection", "close, Cache-Control"), ("Cache-Control", "no-cache")]) == ()


@pytest.mark.parametrize("value", ["caf\u00e9", "a\r\nset-cookie: b", "\udce9", "x" * 5000])
def test_values_that_could_break_a_writer_stay(value):
    """A value with control characters, beyond ASCII, or of absurd length is dropped, not passed on."""
    assert request_headers([("user-agent", value), ("accept", "*/*")]) == (("accept", "*/*"),)


def test_first_of_a_name_counts_and_the_number_is_bounded():
    """Repeated names do not add up, and an engine cannot send headers without bound."""
    assert answer_headers([("Retry-After", "1"), ("retry-after", "9")]) == (("retry-after", "1"),)
    assert len(answer_headers([(f"x-ratelimit-{n}", "1") for n in range(500)])) == MAX_HEADERS


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("a", True),
        ("req 1~!", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("  ", False),
        ("a\n", False),
        ("é", False),
        ("\x7f", False),
    ],
)
def test_request_ids(value, good):
    """A client's id is kept when it is at most 128 printable ASCII characters."""
    assert valid_request_id(value) is good


def test_all_headers_together_have_a_bound():
    """Clients refuse an answer whose head is too long: what does not fit stays behind, short ones still pass."""
    items = [(f"x-ratelimit-{n}", "v" * 3000) for n in range(10)] + [("retry-after", "1")]
    found = answer_headers(items)
    assert [name for name, _ in found] == ["x-ratelimit-0", "x-ratelimit-1", "retry-after"]
