"""The simulated engine as an aiohttp application, for a server that cancels the handler of a client that leaves."""

import asyncio
import hmac
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from aiohttp import web

from iop.simulator.answers import Said, token
from iop.simulator.asked import Asked, Operation, Refused, read
from iop.simulator.slots import Slots
from iop.transport.http_border import error_middleware

#: bytes; well above the Edge's default `http.max_body`
MAX_BODY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SimulatorSpec:
    """`slots` >= 1; `tokens_per_second` > 0, per request; `api_key` None = no key is asked for."""

    model: str
    slots: int
    tokens_per_second: float
    api_key: str | None = None


class Simulator:
    """An OpenAI-compatible engine whose answers take tokens ÷ tokens_per_second seconds."""

    def __init__(self, spec: SimulatorSpec) -> None:
        self.spec = spec
        self.slots = Slots(spec.slots)
        self._serial = itertools.count(1)

    def app(self) -> web.Application:
        """Return the application, to be served by `iop.transport.http_server`; each of its answers is JSON."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[error_middleware])
        app.router.add_get("/v1/models", self._keyed(self._models))
        app.router.add_post("/v1/chat/completions", self._keyed(self._operation("chat.completions")))
        app.router.add_post("/v1/responses", self._keyed(self._operation("responses")))
        app.router.add_get("/stats", self._stats)
        return app

    def _keyed(self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> "_Handler":
        async def checked(request: web.Request) -> web.StreamResponse:
            key = self.spec.api_key
            given = request.headers.get("Authorization", "")
            if key is not None and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
                error = {"message": "Invalid API key.", "type": "invalid_request_error", "param": None}
                return web.json_response({"error": {**error, "code": "invalid_api_key"}}, status=401)
            return await handler(request)

        return checked

    def _operation(self, operation: Operation) -> "_Handler":
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                asked = read(operation, await request.read(), (self.spec.model,))
            except Refused as refused:
                return web.json_response(refused.body, status=refused.status)
            said = Said(asked, next(self._serial), int(time.time()))
            try:
                async with self.slots.held():
                    if asked.stream:
                        return await self._stream(request, asked, said)
                    await self._paced(asked.tokens, asyncio.get_running_loop().time())
                    return web.json_response(said.whole())
            except ConnectionError:  # a write met the closed connection before the cancellation came
                return web.Response(status=499)

        return handle

    async def _stream(self, request: web.Request, asked: Asked, said: Said) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        begun = asyncio.get_running_loop().time()
        events = said.stream()
        await response.write(events.start())
        for number in range(asked.tokens):
            await self._paced(number + 1, begun)
            await response.write(events.delta(token(number)))
        await response.write(said.closing(events))
        await response.write_eof()
        return response

    async def _paced(self, tokens: int, begun: float) -> None:
        """Wait until `tokens` tokens are due; measured from `begun`, so that lateness does not add up."""
        due = begun + tokens / self.spec.tokens_per_second
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))

    async def _models(self, _request: web.Request) -> web.Response:
        model = {"id": self.spec.model, "object": "model", "created": 0, "owned_by": "iop-simulator"}
        return web.json_response({"object": "list", "data": [model]})

    async def _stats(self, _request: web.Request) -> web.Response:
        return web.json_response(asdict(self.slots.stats))


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
