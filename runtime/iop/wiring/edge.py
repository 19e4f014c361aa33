"""Builds the Edge from its config and runs it: three listeners around one core."""

import asyncio
import os
import secrets
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from iop import __version__
from iop.config.load import Loaded
from iop.config.models import EdgeConfig, TlsPair
from iop.config.scalars import Address
from iop.edge.admin_routes import build_admin_app, require_admin, require_json
from iop.edge.body import expect_handler
from iop.edge.core import EdgeCore, Identity
from iop.edge.openai_routes import OpenAIRoutes
from iop.openai.paths import Operation
from iop.transport.hosts import HostRule
from iop.transport.http_border import Handler
from iop.transport.http_server import Listener, listen
from iop.transport.listening import join_address, listening
from iop.transport.tls import ServerTls
from iop.wiring.applied import AppliedNote
from iop.wiring.drains import DrainNote
from iop.wiring.hangup import ReloadOnHangup
from iop.wiring.notify import Notifier
from iop.wiring.passed import Passed

#: seconds that clients get at least to read what they are told when their request is cut (an upload gets one of them)
TELL_WITHIN = 2.0
#: names of the listeners, in `listen` and in LISTEN_FDNAMES
LISTENERS = frozenset({"openai", "nodes", "admin"})
#: seconds after its last answer at which an idle client connection is closed while a stop with a passed socket serves
#: who is connected. A request that is sent in the moment of the close is lost, and clients of the official SDKs send
#: none on a connection that has been idle for 5 s (Python) or 4 s (Node)
IDLE_FOR = 6.0
#: seconds in which the nodes of a predecessor dial this Edge; agents' requests wait for them
NODES_WITHIN = 10.0
TOKEN_FILE = "admin.token"  # noqa: S105  (a file's name)
CHECKS: dict[str, Operation] = {"chat/completions": "chat.completions", "responses": "responses"}


class EdgeService:
    """An Edge process (see `iop.wiring.serve.Service`). Built inside the running loop.

    `passed` are sockets that outlive it; what is not among them is bound here.
    """

    def __init__(
        self,
        loaded: Loaded[EdgeConfig],
        *,
        release_id: str,
        passed: Passed | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        if loaded.config is None:
            raise ValueError("an Edge cannot start with a config that has errors")
        self._config = loaded.config
        token = admin_token(loaded.config, Path(loaded.source).parent)
        identity = Identity(version=__version__, release_id=release_id, instance_id=uuid.uuid4().hex)
        self._core = EdgeCore(loaded, loaded.config, identity, token)
        self._note = AppliedNote(Path(loaded.source))
        self._drains = DrainNote(Path(loaded.source), self._core)
        self._hangup = ReloadOnHangup(self._core, notifier)
        self._passed = passed or Passed()
        self._listeners: dict[str, Listener] = {}

    async def start(self) -> str:
        """Bind the three ports, or take those that were passed; return the ready line. Raises PortBusy, WrongSocket."""
        config, where = self._config, self._config.listen
        self._drains.keep()
        hosts = config.http.allowed_hosts
        routes = OpenAIRoutes(self._core)
        admin = build_admin_app(self._core, HostRule([where.admin.host, *hosts]))
        _add_checks(admin, self._core, routes)
        openai = routes.handler(HostRule([where.openai.host, *hosts]))
        if "openai" in self._passed.sockets:
            self._core.expect_nodes(min(NODES_WITHIN, config.queue.offline_grace))
        openai_at = await self._listen("openai", openai, where.openai, server_tls(config.tls.openai))
        link_tls = server_tls(config.tls.nodes)
        sock = self._passed.pick("nodes", where.nodes.host, where.nodes.port)
        with listening(where.nodes.host, where.nodes.port):
            nodes_at = join_address(*await self._core.links.listen(where.nodes.host, where.nodes.port, link_tls, sock))
        admin_at = await self._listen("admin", admin, where.admin, server_tls(config.tls.admin))
        self._note.warn_if_other(self._core.refresher.facts)
        self._note.write(self._core.refresher.facts)
        self._core.refresher.on_applied = self._note.write
        self._hangup.install()
        release = self._core.identity.release_id
        return f"ready edge={config.edge.id} openai={openai_at} nodes={nodes_at} admin={admin_at} release={release}"

    async def drain(self) -> None:
        """Finish what runs and waits, or cut it at `drain_timeout`; clients that still read get the rest of it.

        With a passed socket no client is refused until then: new connections wait in the socket for the next Edge, and
        who is connected is served.
        """
        loop = asyncio.get_running_loop()
        timeout = self._core.config.drain_timeout
        until = loop.time() + timeout
        if "openai" in self._passed.sockets:
            self._core.begin_stop()
            await self._listeners["openai"].retire(IDLE_FOR, timeout)
        await self._core.finish(until)
        self._core.feed.close()
        within = max(TELL_WITHIN, until - loop.time())
        await asyncio.gather(*(listener.finish(within) for listener in self._listeners.values()))

    async def stop(self) -> None:
        """Cut what is left and free everything."""
        self._core.shutting_down = True
        await self._hangup.close()
        self._core.cut()
        await self._core.close()
        for listener in self._listeners.values():
            await listener.close()

    async def _listen(self, name: str, app: web.Application | Handler, address: Address, tls: ServerTls | None) -> str:
        sock = self._passed.pick(name, address.host, address.port)
        listener = await listen(app, address.host, address.port, tls, sock=sock)
        self._listeners[name] = listener
        return join_address(listener.host, listener.port)


def server_tls(pair: TlsPair | None) -> ServerTls | None:
    """Read the certificate of a listener. Raises OSError when it cannot be used."""
    return ServerTls(pair.cert, pair.key) if pair is not None else None


def admin_token(config: EdgeConfig, folder: Path) -> str:
    """Return the admin token: `auth.admin_token_file`, else `admin.token` (0600) beside the config, made if missing.

    Raises OSError when the file cannot be read or written, ValueError when it is empty.
    """
    configured = config.auth.admin_token_file
    path = Path(configured) if configured is not None else folder / TOKEN_FILE
    if configured is None and not path.exists():
        _write_token(path)
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise ValueError(f"the admin token file {path} is empty; write a token into it, or delete it to get a new one")
    return token


def _write_token(path: Path) -> None:
    """Write a new token so that nobody ever sees half of it, and nobody but this user can read it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    fresh.replace(path)


def _add_checks(admin: web.Application, core: EdgeCore, routes: OpenAIRoutes) -> None:
    """Add the admin's check of one provider: POST /providers/{id}/v1/chat/completions and /v1/responses."""

    def handler(operation: Operation) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def check(request: web.Request) -> web.StreamResponse:
            require_admin(request, core.token)
            require_json(request)
            return await routes.check_provider(request, request.match_info["id"], operation)

        return check

    for path, operation in CHECKS.items():
        admin.router.add_post(f"/providers/{{id}}/v1/{path}", handler(operation), expect_handler=expect_handler)
