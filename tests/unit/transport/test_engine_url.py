"""The addresses under an engine's endpoint."""

import pytest

from iop.transport.engine_url import basic_auth, http_url, join


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://h:1/v1", "http://h:1/v1/models"),
        ("http://h:1/v1/", "http://h:1/v1/models"),
        ("http://h:1//v1//", "http://h:1/v1/models"),
        ("http://h:1", "http://h:1/v1/models"),
        ("http://h:1/", "http://h:1/v1/models"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1/models"),
        ("http://h:1/api/v1", "http://h:1/api/v1/models"),
        ("http://h:1/v1?key=a", "http://h:1/v1/models?key=a"),
        ("http://user:word@h:1/v1", "http://h:1/v1/models"),
    ],
)
def test_join_accepts_each_spelling(endpoint, url):
    """Field case B36: each spelling of an endpoint gives the one right address."""
    assert join(endpoint, "models") == url


def test_basic_auth_from_the_url():
    """User and password of an endpoint become a header, percent-decoded; without them there is none."""
    assert basic_auth("http://user:p%40ss@h/v1") == "Basic dXNlcjpwQHNz"
    assert basic_auth("http://h/v1") is None


@pytest.mark.parametrize("endpoint", ["ftp://h/", "http://", "http://h:99999/v1", "h", "http://[::1/v1", "file:///v1"])
def test_what_is_no_http_url(endpoint):
    """Nonsense in an endpoint is told apart from an address, and raises nothing."""
    assert http_url(endpoint, "models") is None


def test_an_address_is_sent_percent_encoded_with_its_port():
    """What goes into a request line is ASCII; the default port is left out of Host."""
    url = http_url("http://häuser.example:80/é/v1?key=a b", "models")
    assert url is not None
    assert url.raw_path_qs == "/%C3%A9/v1/models?key=a+b"
    assert url.host_port_subcomponent == "xn--huser-gra.example"
