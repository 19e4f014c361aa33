"""API keys."""

import hashlib

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from iop.config.models import ApiKey
from iop.domain.errors import Unauthorized
from iop.edge.auth import authorize

KEY = ApiKey(name="me", sha256=hashlib.sha256(b"sk-secret").hexdigest())


class _Transport:
    def __init__(self, peer: str) -> None:
        self._peer = peer

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self._peer, 1) if name == "peername" else default


def _request(*values: str, peer: str = "127.0.0.1") -> object:
    headers = CIMultiDict([("Authorization", v) for v in values])
    return make_mocked_request("GET", "/", headers=headers, transport=_Transport(peer))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["Bearer sk-secret", "bearer sk-secret", "BEARER   sk-secret", "Bearer sk-secret "])
def test_spellings_of_the_scheme_are_accepted(value: str) -> None:
    """The scheme is case-insensitive, spaces around the token do not count."""
    assert authorize(_request(value), [KEY]) is KEY  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [(), ("Bearer wrong",), ("Basic sk-secret",), ("Bearer",), ("Bearer SK-SECRET",)])
def test_everything_else_is_the_same_401(values: tuple[str, ...]) -> None:
    """Missing, wrong and foreign credentials are told in the same words."""
    with pytest.raises(Unauthorized, match="Incorrect API key"):
        authorize(_request(*values), [KEY])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("peer", "served"), [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.1.2.3", False)]
)
def test_without_keys_loopback_only(peer: str, served: bool) -> None:
    """No keys configured: loopback clients are served, whatever they send; others are refused."""
    request = _request("Bearer anything", peer=peer)
    if served:
        assert authorize(request, []) is None  # type: ignore[arg-type]
    else:
        with pytest.raises(Unauthorized):
            authorize(request, [])  # type: ignore[arg-type]
