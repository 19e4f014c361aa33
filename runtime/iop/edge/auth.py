"""Who may use the OpenAI API: keys by hash, compared in constant time; without keys, loopback clients only."""

import hashlib
import hmac
from collections.abc import Sequence

from aiohttp import web

from iop.config.models import ApiKey
from iop.domain.errors import Unauthorized
from iop.transport.callers import bearer_token, is_loopback


def authorize(request: web.Request, keys: Sequence[ApiKey]) -> ApiKey | None:
    """Return the key of this request (None where no keys are configured and the client is on loopback).

    Raises Unauthorized, whose words never tell whether a key was missing, wrong or of the wrong kind.
    """
    token = bearer_token(request)
    if not keys:
        if is_loopback(request.remote or ""):
            return None
        raise Unauthorized("This server has no API keys configured and therefore serves loopback clients only.")
    digest = hashlib.sha256((token or "").encode("utf-8", "surrogatepass")).hexdigest()
    found: ApiKey | None = None
    for key in keys:  # every key is compared, so that the time tells nothing
        if hmac.compare_digest(key.sha256.lower(), digest):
            found = key
    if token is None or found is None:
        raise Unauthorized("Incorrect API key provided. Send 'Authorization: Bearer <key>'.")
    return found
