"""The scalar types of the config files: durations, sizes, addresses, ids, URLs, hashes, local paths.

Each parser takes what YAML gave and returns the typed value or raises ValueError with a sentence for people; no message
repeats a value that could be a secret.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    PlainSerializer,
    PlainValidator,
    Strict,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_DURATION = re.compile(_NUMBER + r"(ms|s|m|h)")
_SECONDS = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}
_SIZE = re.compile(_NUMBER + r"(B|KiB|MiB|GiB)")
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_ADDRESS = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^\[\]:\s/@]+)):(?P<port>[0-9]{1,5})")
#: ids of nodes, providers, instances and targets
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host and a TCP port (0 = any free one). `str()` gives `host:port`, an IPv6 host in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True for localhost, 127.0.0.0/8 and ::1; any other name counts as reachable from outside."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_unspecified(self) -> bool:
        """True for 0.0.0.0 and ::, which listen on every interface."""
        return self.host in {"0.0.0.0", "::"}  # noqa: S104 - recognised here, never bound


def parse_address(value: object) -> Address:
    """Read `HOST:PORT` (IPv6 as `[::1]:PORT`). Raises ValueError."""
    if isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected an address HOST:PORT such as 127.0.0.1:18083 (IPv6 in brackets)")
    if int(match["port"]) > 65535:
        raise ValueError("a port is a number from 0 to 65535")
    if match["six"] is not None:
        try:
            ipaddress.IPv6Address(match["six"])
        except ValueError:
            raise ValueError("what stands in the brackets is no IPv6 address") from None
    return Address(match["six"] or match["host"], int(match["port"]))


def parse_duration(value: object) -> float:
    """Read `500ms`, `15s`, `2m`, `1h` (decimals allowed) as seconds. Raises ValueError; bare numbers are refused."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        message = f"a duration needs its unit: write {value}s, {value}ms, {value}m or {value}h"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns ValueError into a finding
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a duration such as 500ms, 15s, 2m or 1h")
    return float(Fraction(match[1]) * _SECONDS[match[2]])


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("this duration must be longer than 0s")
    return value


def parse_size(value: object) -> int:
    """Read `512B`, `64KiB`, `1.5MiB`, `1GiB` as bytes. Raises ValueError; bare numbers are refused."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        message = f"a size needs its unit: write {value}B, {value}KiB, {value}MiB or {value}GiB"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns ValueError into a finding
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a size such as 512B, 64KiB, 1.5MiB or 1GiB")
    return int(Fraction(match[1]) * _BYTES[match[2]])


def format_duration(seconds: float) -> str:
    """Write seconds as the config does, in the largest unit that fits evenly: 120.0 is `2m`."""
    exact = Fraction(str(seconds))
    for unit in ("h", "m", "s"):
        if exact and exact % _SECONDS[unit] == 0:
            return f"{exact // _SECONDS[unit]}{unit}"
    return f"{float(exact * 1000):g}ms" if exact else "0s"


def format_size(size: int) -> str:
    """Write bytes as the config does, in the largest unit that fits evenly: 65536 is `64KiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def _endpoint(value: str) -> str:
    try:
        parts = urlsplit(value)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError("this URL cannot be read") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL must not carry a user or password: secrets live in files")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_ok:
        raise ValueError("expected a URL such as http://127.0.0.1:8002/v1")
    if parts.query or parts.fragment or any(c.isspace() for c in value):
        raise ValueError("a URL here has no query, fragment or spaces")
    return value


def _sha256(value: str) -> str:
    if _HEX_SHA256.fullmatch(value) is None:
        raise ValueError("expected a SHA-256 in 64 lower-case hex digits, never the secret itself")
    return value


def _local_path(value: str, info: ValidationInfo) -> str:
    resolve: Callable[[str], str] | None = info.context
    return value if resolve is None else resolve(value)


def _is_path(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("expected a path")
    return value


Duration = Annotated[
    float,
    PlainValidator(parse_duration),
    AfterValidator(_positive),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["500ms", "15s", "2m", "1h"]}),
]
DurationOrZero = Annotated[
    float,
    PlainValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["0s", "15s"]}),
]
Size = Annotated[
    int,
    PlainValidator(parse_size),
    PlainSerializer(format_size),
    WithJsonSchema({"type": "string", "pattern": f"^{_SIZE.pattern}$", "examples": ["512B", "64KiB", "1GiB"]}),
]
ListenAddress = Annotated[
    Address,
    PlainValidator(parse_address),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["127.0.0.1:18083", "[::1]:0"]}),
]
#: an id that also travels in URL paths, header values and file names
Identifier = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
#: a public model id: slashes and colons are usual, blanks and control characters are not
ModelId = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f]{1,256}$")]
Text = Annotated[str, StringConstraints(min_length=1)]
Endpoint = Annotated[
    str, AfterValidator(_endpoint), WithJsonSchema({"type": "string", "pattern": r"^https?://[^\s/?#@]+[^\s?#@]*$"})
]
Sha256 = Annotated[
    str, AfterValidator(_sha256), WithJsonSchema({"type": "string", "pattern": f"^{_HEX_SHA256.pattern}$"})
]
#: a path on this machine; made absolute by the loader (the validation context is the function that does it)
LocalPath = Annotated[str, AfterValidator(_is_path), AfterValidator(_local_path)]
#: a path on another machine (the node's): carried as written
RemotePath = Annotated[str, AfterValidator(_is_path)]
#: a YAML list, kept as a tuple
Many = Annotated[tuple[T, ...], Strict(strict=False)]
