"""Which headers travel: an allow-list each way.

What is not listed stays behind: hop-by-hop headers, cookies, credentials, Host, lengths and codings (each hop frames
its own body and asks for `identity`).
"""

from collections.abc import Iterable

Headers = tuple[tuple[str, str], ...]

#: client to engine; traceparent and tracestate are W3C Trace Context, x-client-request-id and openai-beta are OpenAI's
REQUEST_ALLOWED = frozenset(
    {
        "accept",
        "content-type",
        "user-agent",
        "openai-beta",
        "x-client-request-id",
        "x-request-id",
        "traceparent",
        "tracestate",
    }
)
#: engine to client; retry-after-ms and x-should-retry are read by OpenAI's SDKs, x-accel-buffering by nginx
ANSWER_ALLOWED = frozenset(
    {
        "content-type",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "cache-control",
        "x-accel-buffering",
    }
)
ANSWER_PREFIXES = ("x-ratelimit-", "openai-")

MAX_REQUEST_ID = 128
#: longest value that is passed on, in characters: no listed header needs more, and a link frame carries them all
MAX_VALUE = 4096
#: an engine could send any number of names under the allowed prefixes
MAX_HEADERS = 64
#: characters of all that is passed on: clients (Node's among them) refuse an answer whose head is over 16 KiB
MAX_TOTAL = 8192


def request_headers(items: Iterable[tuple[str, str]]) -> Headers:
    """Return the client's headers that may travel to the engine, names in lower case, the first of each name."""
    return _select(items, REQUEST_ALLOWED, ())


def answer_headers(items: Iterable[tuple[str, str]]) -> Headers:
    """Return the engine's headers that may travel to the client, names in lower case, the first of each name."""
    return _select(items, ANSWER_ALLOWED, ANSWER_PREFIXES)


def valid_request_id(value: str) -> bool:
    """Return whether a client's own request id can be kept: 1 to 128 printable ASCII characters, not only blanks."""
    return 0 < len(value) <= MAX_REQUEST_ID and value.isascii() and value.isprintable() and not value.isspace()


def _select(items: Iterable[tuple[str, str]], allowed: frozenset[str], prefixes: tuple[str, ...]) -> Headers:
    listed = [(name.lower(), value.strip(" \t")) for name, value in items]
    # RFC 9110 7.6.1: what Connection names is meant for this hop only
    of_this_hop = {
        token.strip().lower() for name, value in listed if name == "connection" for token in value.split(",")
    }
    found: dict[str, str] = {}
    room = MAX_TOTAL
    for name, value in listed:
        if not _is_sendable(name, value) or name in of_this_hop or name in found:
            continue
        if (name in allowed or name.startswith(prefixes)) and len(name) + len(value) <= room:
            found[name] = value
            room -= len(name) + len(value)
    return tuple(found.items())[:MAX_HEADERS]


def _is_sendable(name: str, value: str) -> bool:
    """Return whether both parts pass any writer and the link: ASCII without control characters, of bounded length."""
    text = name + value
    return len(text) <= MAX_VALUE and text.isascii() and text.isprintable()
