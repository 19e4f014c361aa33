"""Which `Host` and `Origin` names may speak to a port: localhost is not a wall against web pages."""

import ipaddress
import re
from collections.abc import Iterable

#: `name`, `address` or `[v6 address]`, with or without a port; nothing that a laxer reader takes for the end of a name
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s\[\]@/?#\\,:]+))(?::(?P<port>[0-9]{1,5})?)?")

#: right spellings that are remembered: names and addresses in use, each with a few ports and from a few addresses
MAX_KNOWN = 256

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class HostRule:
    """The names of one port: loopback names, the listen address, `http.allowed_hosts`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK_NAMES | {name.strip("[]").lower() for name in names}
        #: spellings that were found right (with the address of the connection), as nearly all requests repeat one
        self._known: set[tuple[str, str | None]] = set()

    def allows(self, host: str, local_address: str | None = None) -> bool:
        """True when the `Host` header's value (port ignored) is one of ours.

        The address a connection came in on counts too: rebinding attacks work with names, not with address literals.
        """
        if (host, local_address) in self._known:
            return True
        is_ours = self._is_ours(host, local_address)
        if is_ours:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known.add((host, local_address))
        return is_ours

    def _is_ours(self, host: str, local_address: str | None) -> bool:
        name = host_name(host)
        if name is None:
            return False
        if name in self._names or name == local_address:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)  # [::ffff:127.0.0.1], as a dual-stack client may write it
        return bool((mapped or address).is_loopback)

    def refusal(self, hosts: list[str], origins: list[str], local_address: str | None = None) -> str | None:
        """Say why these `Host` and `Origin` headers are refused; None when they may pass."""
        if len(hosts) != 1:
            return "Send exactly one Host header."
        if not self.allows(hosts[0], local_address):
            return _foreign("Host", hosts[0])
        for origin in origins:
            if not self.allows(origin.partition("://")[2], local_address):
                return _foreign("Origin", origin)
        return None


def host_name(host: str) -> str | None:
    """Return the lower-case name of a `Host` value without its port and brackets, None if it is malformed."""
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) > 65535:
        return None
    return (found["v6"] or found["name"]).lower().rstrip(".") or None


def _foreign(header: str, value: str) -> str:
    shown = value.encode("ascii", "replace").decode()[:100]
    return (
        f"{header} {shown!r} is not a name of this server. Use its listen address or a loopback name, "
        "or add the name to http.allowed_hosts."
    )
