"""Which headers travel: an allow-list each way.

What is not listed stays behind: hop-by-hop headers, cookies, credentials, Host, lengths and codings (each hop frames
its own body and asks for `identity`).
"""

import functools
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


@functools.lru_cache(maxsize=64)
def passed_headers(items: Headers) -> Headers:
    """Return the same for headers that a node has passed on already: nearly always those of the answer before."""
    return answer_headers(items)


def valid_request_id(value: str) -> bool:
    """Return whether a client's own request id can be kept: 1 to 128 printable ASCII characters, not only blanks."""
    return 0 < len(value) <= MAX_REQUEST_ID and value.isascii() and value.isprintable() and not value.isspace()


def _select(items: Iterable[tuple[str, str]], allowed: frozenset[str], prefixes: tuple[str, ...]) -> Headers:
    found: dict[str, str] = {}
    of_this_hop: list[str] = []
    for given, text in items:
        name = given.lower()
        if name == "connection":
            of_this_hop.append(text)
        elif (name in allowed or name.startswith(prefixes)) and name not in found:
            value = text.strip(" \t")
            if _is_sendable(name, value):
                found[name] = value
    if of_this_hop:
        # RFC 9110 7.6.1: what Connection names is meant for this hop only
        for token in ",".join(of_this_hop).split(","):
            found.pop(token.strip().lower(), None)
    return tuple(found.items()) if len(found) <= MAX_HEADERS and _size(found) <= MAX_TOTAL else _first_of(found)


def _size(found: dict[str, str]) -> int:
    return sum(map(len, found)) + sum(map(len, found.values()))


def _first_of(found: dict[str, str]) -> Headers:
    """Return those for which there is room, in order."""
    kept: list[tuple[str, str]] = []
    room = MAX_TOTAL
    for name, value in found.items():
        if len(name) + len(value) <= room:
            kept.append((name, value))
            room -= len(name) + len(value)
    return tuple(kept)[:MAX_HEADERS]


def _is_sendable(name: str, value: str) -> bool:
    """Return whether both parts pass any writer and the link: ASCII without control characters, of bounded length."""
    text = name + value
    return len(text) <= MAX_VALUE and text.isascii() and text.isprintable()
