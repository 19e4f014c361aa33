"""The page's files: read once from the package, and the headers that let a browser load nothing else.

They hold no secrets and go to everybody the Host rule lets in; what they show needs a token from beyond loopback.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from aiohttp import web

from iop.transport import http_connection

#: what may be asked for without a token, as the router writes it
PUBLIC = frozenset({"/", "/page/{file}"})
INDEX = "index.html"
#: of every answer of the Control Plane: nothing foreign is loaded, embedded or told, no text is taken for a script
GUARDS = http_connection.GUARDS | {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is served."""

    body: bytes
    content_type: str
    etag: str


def read_page() -> Mapping[str, PageFile]:
    """Read the page from the package: a few small files, by name. Raises OSError when the installation lacks them."""
    found = {}
    for entry in files("iop.control").joinpath("page").iterdir():
        kind = _TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = PageFile(body, kind, hashlib.sha256(body).hexdigest()[:32])
    if INDEX not in found:
        raise FileNotFoundError(f"this installation of iop has no page: {INDEX} is missing in iop/control/page")
    return found


def answer(request: web.Request, file: PageFile) -> web.Response:
    """Serve a file: browsers ask each time and are told 304 while it is the same."""
    known = request.if_none_match or ()
    same = any(tag.value in {file.etag, "*"} for tag in known)
    response = web.Response(status=304) if same else web.Response(body=file.body)
    response.etag = file.etag
    response.headers["Cache-Control"] = "no-cache"
    if not same:
        response.content_type, response.charset = file.content_type, "utf-8"
    return response


async def guard(_request: web.Request, response: web.StreamResponse) -> None:
    """Put the guards on an answer that is about to be sent."""
    response.headers.update(GUARDS)
