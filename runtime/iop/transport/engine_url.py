"""Where an engine is: the addresses under its endpoint, whatever that one's spelling."""

import base64
import re
from urllib.parse import unquote, urlsplit, urlunsplit

from yarl import URL

_FULL_ENDPOINTS = ("/chat/completions", "/responses", "/models")


def join(endpoint: str, path: str) -> str:
    """Return the URL of `path` (such as `models`) under an endpoint, whatever its spelling.

    A bare host gets `/v1`; trailing or doubled slashes and a full endpoint's last part are taken off; a query is
    kept; user and password are left out (see `basic_auth`).
    """
    parts = urlsplit(endpoint.strip())
    base = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    for tail in _FULL_ENDPOINTS:
        base = base.removesuffix(tail)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, f"{base or '/v1'}/{path}", parts.query, ""))


def basic_auth(endpoint: str) -> str | None:
    """Return the Authorization value for an endpoint with user and password in its URL, else None."""
    user, found, _ = urlsplit(endpoint.strip()).netloc.rpartition("@")
    return "Basic " + base64.b64encode(unquote(user).encode()).decode() if found else None


def http_url(endpoint: str, path: str) -> URL | None:
    """Return the URL of `path` under an endpoint as it is sent; None if that is no http or https URL."""
    try:
        url = URL(join(endpoint, path))
    except ValueError:
        return None
    return url if url.scheme in {"http", "https"} and url.host else None
