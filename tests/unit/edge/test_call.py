"""A call as it is read: its body counted, its top level known."""

from aiohttp import web

from iop.edge.call import Call, read_call
from iop.edge.stock import BodyStock
from iop.transport.http_border import error_middleware
from iop.transport.http_server import listen
from tests.fakes.raw import raw, request


async def test_a_call_is_read_and_its_body_counted() -> None:
    """Model, stream and bytes are the body's own; the bytes are held; too many are a 413, bad JSON a 400."""
    calls: list[Call] = []
    stock = BodyStock()

    async def handler(request: web.Request) -> web.Response:
        calls.append(await read_call(request, "responses", stock.open(100), max_body=60, silence=20.0))
        return web.Response()

    app = web.Application(middlewares=[error_middleware])
    app.router.add_post("/", handler)
    listener = await listen(app, "127.0.0.1", 0)
    body = b'{"stream": true, "model": "m"}'
    statuses = [
        int((await raw(listener.host, listener.port, request("/", sent))).split(b" ")[1])
        for sent in (body, b"{", b" " * 61)
    ]
    await listener.close()

    assert statuses == [200, 400, 413]
    (call,) = calls
    assert (call.operation, call.parsed.model, call.parsed.stream, call.parsed.body) == ("responses", "m", True, body)
    call.hold.release()
    assert stock.held == len(b"{")
