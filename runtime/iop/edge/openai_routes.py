"""The OpenAI port: models, chat, responses, health. Handlers parse, ask and answer; they decide nothing."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from aiohttp import web

from iop.config.models import ApiKey, EdgeConfig, Model
from iop.domain.errors import MethodNotAllowed, NotFound, Unavailable, UpgradeNotSupported
from iop.domain.specs import Ask
from iop.edge.auth import authorize
from iop.edge.body import is_here
from iop.edge.call import Call, read_call
from iop.edge.description import description
from iop.edge.direct import Direct
from iop.edge.journal import entry_of, journal
from iop.edge.lookup import Lookup
from iop.edge.pool import Pool
from iop.edge.stock import BodyHold, BodyStock
from iop.edge.tallies import Tallies
from iop.edge.uploads import Uploads
from iop.openai import models as model_objects
from iop.openai import paths
from iop.openai.paths import Operation
from iop.transport.hosts import HostRule
from iop.transport.http_border import Handler, error_middleware, host_middleware, layered, request_id


class OpenAIContext(Protocol):
    """What the OpenAI port needs of the Edge."""

    pool: Pool
    direct: Direct
    uploads: Uploads
    tallies: Tallies
    started_at: float

    @property
    def shutting_down(self) -> bool:
        """True from SIGTERM on."""

    @property
    def refusing(self) -> bool:
        """True when newcomers are turned away."""

    async def arrival(self, node_id: str) -> None:
        """Return when the node is there, or is not expected."""

    @property
    def config(self) -> EdgeConfig:
        """The config in force."""


class OpenAIRoutes:
    """The handlers of the OpenAI port, and the admin's check of one provider, which runs the same way."""

    def __init__(self, context: OpenAIContext) -> None:
        self._context = context
        self._stock = BodyStock()
        self._lookup = Lookup()
        self._description = description("openai")

    def handler(self, hosts: HostRule) -> Handler:
        """Return the port's one handler. It needs no router: clients spell paths in several ways."""
        watch = journal(lambda: self._context.tallies)
        return layered(self._dispatch, watch, error_middleware, host_middleware(hosts))

    async def check_provider(self, request: web.Request, provider_id: str, operation: Operation) -> web.StreamResponse:
        """Run one request on one provider, drain ignored: same slots, counters and relay as any pool request."""
        config = self._context.config
        if not any(p.id == provider_id for node in config.nodes for p in node.providers):
            raise NotFound(f"There is no provider {provider_id!r}.", code="not_found")
        with self._stock.open(config.queue.max_bytes) as hold:
            call = await self._read(request, operation, hold)
            model = self._find_model(call.parsed.model, None)
            if provider_id not in model.providers:
                raise NotFound(f"Provider {provider_id!r} does not serve the model {model.id!r}.", param="model")
            entry_of(request).route = "pool"
            ask = Ask(request_id(request), model.id, check=provider_id, streams=call.parsed.stream)
            return await self._context.pool.answer(call, ask)

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        path = paths.clean_path(request.path)
        if request.headers.get("Upgrade") and "upgrade" in request.headers.get("Connection", "").lower():
            raise UpgradeNotSupported("This server speaks plain HTTP here; send a POST.")
        methods = paths.methods(path)
        if not methods:
            raise paths.not_found(request.path)
        if request.method not in methods:
            allowed = ", ".join(methods)
            shown = request.path[:200]
            raise MethodNotAllowed(f"{request.method} is not allowed for {shown}; allowed: {allowed}.", allow=allowed)
        if path in paths.OPERATIONS:
            return await self._run(request, paths.OPERATIONS[path])
        if path == paths.MODELS:
            return self._models(request)
        if (model_id := paths.model_id(path)) is not None:
            return self._model(request, model_id)
        if path == paths.DESCRIPTION:
            return web.Response(body=self._description, content_type="application/json")
        return self._health(path)

    async def _run(self, request: web.Request, operation: Operation) -> web.StreamResponse:
        config = self._context.config
        key = self._key_of(request)
        with self._stock.open(config.queue.max_bytes) as hold:
            call = await self._read(request, operation, hold)
            return await self._answer(call, key)

    async def _answer(self, call: Call, key: ApiKey | None) -> web.StreamResponse:
        model = self._find_model(call.parsed.model, key)
        entry = entry_of(call.http)
        entry.route = "pool" if model.direct is None else "direct"
        if model.direct is not None:
            if self._context.refusing:
                raise Unavailable("The server is shutting down.", code="shutting_down", retry_after=2)
            async with self._context.uploads.reading():  # a stop ends this wait, too
                await self._context.arrival(model.direct.node)
            return await self._context.direct.answer(call, model.direct)
        ask = Ask(
            request_id(call.http),
            model.id,
            key=key.name if key is not None else None,
            key_max_waiting=key.max_waiting if key is not None else None,
            streams=call.parsed.stream,
        )
        return await self._context.pool.answer(call, ask)

    async def _read(self, request: web.Request, operation: Operation, hold: BodyHold) -> Call:
        config = self._context.config
        max_body, silence = config.http.max_body, config.stream.idle_timeout
        reading = read_call(request, operation, hold, max_body=max_body, silence=silence)
        if is_here(request):
            call = await reading
        else:
            async with self._context.uploads.reading():
                call = await reading
        entry_of(request).read(call.parsed.model, stream=call.parsed.stream)
        return call

    def _key_of(self, request: web.Request) -> ApiKey | None:
        key = authorize(request, self._context.config.auth.api_keys)
        entry_of(request).key = key.name if key is not None else None
        return key

    def _models(self, request: web.Request) -> web.Response:
        key = self._key_of(request)
        ids = [model.id for model in _visible(self._context.config.models, key)]
        for_codex = "client_version" in request.query
        return _json(model_objects.model_list(ids, int(self._context.started_at), for_codex=for_codex))

    def _model(self, request: web.Request, model_id: str) -> web.Response:
        key = self._key_of(request)
        return _json(model_objects.model_object(self._find_model(model_id, key).id, int(self._context.started_at)))

    def _find_model(self, model_id: str, key: ApiKey | None) -> Model:
        model = self._lookup.model(self._context.config, model_id, key)
        if model is None:
            text = f"The model {model_id[:200]!r} does not exist or is not available to this key."
            raise NotFound(text, param="model")
        return model

    def _health(self, path: str) -> web.Response:
        if path == "/readyz" and self._context.shutting_down:
            raise Unavailable("The server is shutting down.", code="shutting_down", retry_after=2)
        return _json({"status": "ready" if path == "/readyz" else "ok"})


def _json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _visible(models: Sequence[Model], key: ApiKey | None) -> list[Model]:
    if key is None or key.models is None:
        return list(models)
    return [model for model in models if model.id in key.models]
