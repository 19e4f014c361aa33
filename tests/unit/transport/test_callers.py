"""Who calls: loopback, bearer tokens, and the guard of callers from other machines."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from iop.domain.errors import BadRequest, Unauthorized
from iop.transport.callers import bearer_token, is_loopback, remote_middleware


class _Transport:
    def __init__(self, peer: str) -> None:
        self._peer = peer

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self._peer, 1) if name == "peername" else default


def _request(*values: str, peer: str = "127.0.0.1"):
    headers = CIMultiDict([("Authorization", v) for v in values])
    return make_mocked_request("GET", "/", headers=headers, transport=_Transport(peer))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback(host, loopback):
    """Only addresses count, names do not."""
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("values", "token"),
    [((), None), (("Bearer a b",), "a b"), (("bearer  x",), "x"), (("Basic x",), None), (("Bearer ",), None)],
)
def test_bearer_tokens(values, token):
    """The scheme's case and the blanks around the token do not count; other schemes carry none."""
    assert bearer_token(_request(*values)) == token


def test_two_headers_are_ambiguous():
    """Two Authorization headers are a 400."""
    with pytest.raises(BadRequest):
        bearer_token(_request("Bearer a", "Bearer b"))


@pytest.mark.parametrize(
    ("peer", "values", "passes"),
    [
        ("127.0.0.1", (), True),
        ("::1", ("Bearer wrong",), True),
        ("10.0.0.7", ("Bearer right",), True),
        ("10.0.0.7", ("Bearer wrong",), False),
        ("10.0.0.7", (), False),
    ],
)
async def test_from_beyond_loopback_a_token_is_needed(peer, values, passes):
    """Loopback callers pass; others with the right token only, whatever they ask for."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="in")

    guard = remote_middleware(lambda token: token == "right")
    if passes:
        assert (await guard(_request(*values, peer=peer), handler)).text == "in"
    else:
        with pytest.raises(Unauthorized):
            await guard(_request(*values, peer=peer), handler)


async def test_a_public_route_needs_no_token_and_what_matches_no_route_does():
    """Only what the router matched is public: not a path that looks like it."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="in")

    guard = remote_middleware(lambda _token: False, public={"/page/{file}"})
    app = web.Application(middlewares=[guard])
    app.router.add_get("/page/{file}", handler)
    app.router.add_get("/page/{file}/more", handler)
    for path, passes in (
        ("/page/a.js", True),
        ("/page/a.js/more", False),
        ("/page/", False),
        ("/page/a.js/none", False),
    ):
        request = make_mocked_request("GET", path, transport=_Transport("10.0.0.1"))
        request._match_info = await app.router.resolve(request)
        if passes:
            assert (await guard(request, handler)).text == "in"
        else:
            with pytest.raises(Unauthorized):
                await guard(request, handler)
