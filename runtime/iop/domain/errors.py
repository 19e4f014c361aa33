"""The error tree: every failure iop itself reports to a client, with a stable code and a status hint.

    IopError
      BadRequest          400  invalid_json invalid_body missing_model invalid_host
      Unauthorized        401  invalid_api_key
      NotFound            404  model_not_found previous_response_not_found not_found
      MethodNotAllowed    405  method_not_allowed
      BodyTooLarge        413  body_too_large
      UnsupportedEncoding 415  unsupported_encoding
      UpgradeNotSupported 426  upgrade_not_supported
      QueueFull           429  queue_full
      UpstreamError       502  upstream_unreachable upstream_broken agent_failed
      Unavailable         503  queue_timeout no_provider_available node_offline node_draining shutting_down
      UpstreamTimeout     504  upstream_timeout

Only the HTTP floor (`iop.edge`) renders these; the numbers are from the interface's table of errors.
"""

#: every code that iop itself gives an error; an engine's own words are none of them
CODES = frozenset(
    {
        "invalid_json",
        "invalid_body",
        "missing_model",
        "invalid_host",
        "invalid_api_key",
        "model_not_found",
        "previous_response_not_found",
        "not_found",
        "method_not_allowed",
        "body_too_large",
        "unsupported_encoding",
        "upgrade_not_supported",
        "queue_full",
        "upstream_unreachable",
        "upstream_broken",
        "agent_failed",
        "queue_timeout",
        "no_provider_available",
        "node_offline",
        "node_draining",
        "shutting_down",
        "upstream_timeout",
        "internal_error",
    }
)


class IopError(Exception):
    """A failure with a stable `code`, an HTTP `status` hint and OpenAI's error `type`.

    `retry_after` is in whole seconds (>= 1) where the answer must carry `Retry-After`; `param` names the
    request field at fault.
    """

    status = 500
    type = "server_error"
    default_code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param
        self.retry_after = retry_after


class BadRequest(IopError):
    """The request cannot be read or lacks something (400)."""

    status = 400
    type = "invalid_request_error"
    default_code = "invalid_body"


class Unauthorized(IopError):
    """No or a wrong API key (401); the message never says which."""

    status = 401
    type = "invalid_request_error"
    default_code = "invalid_api_key"


class NotFound(IopError):
    """An unknown path, or a model that is unknown, gone or not for this key (404)."""

    status = 404
    type = "invalid_request_error"
    default_code = "model_not_found"


class MethodNotAllowed(IopError):
    """The path exists, this method does not (405). `allow` is the value of the `Allow` header."""

    status = 405
    type = "invalid_request_error"
    default_code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str = "") -> None:
        super().__init__(message)
        self.allow = allow


class BodyTooLarge(IopError):
    """The body, as sent or decoded, is over `http.max_body` (413)."""

    status = 413
    type = "invalid_request_error"
    default_code = "body_too_large"


class UnsupportedEncoding(IopError):
    """A Content-Encoding that is not decoded here (415)."""

    status = 415
    type = "invalid_request_error"
    default_code = "unsupported_encoding"


class UpgradeNotSupported(IopError):
    """A WebSocket or other upgrade (426)."""

    status = 426
    type = "invalid_request_error"
    default_code = "upgrade_not_supported"


class QueueFull(IopError):
    """No place in line (429)."""

    status = 429
    type = "rate_limit_error"
    default_code = "queue_full"


class UpstreamError(IopError):
    """The engine or agent could not be reached or broke off (502)."""

    status = 502
    default_code = "upstream_unreachable"


class Unavailable(IopError):
    """Nobody can serve this now; trying later may help (503)."""

    status = 503
    default_code = "no_provider_available"


class UpstreamTimeout(IopError):
    """The engine did not answer in `engine.answer_timeout` (504)."""

    status = 504
    default_code = "upstream_timeout"
