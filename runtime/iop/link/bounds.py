"""What a node tells about itself and its work, cut to sizes that the Edge can keep.

A node with the right token is believed, but its words go into every status, into thousands of remembered events and
into logs: each has a length here, each list a number of entries, and a kind of failure that does not exist is a broken
answer.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from iop.link import messages as m

#: characters of a name, a version, an id
MAX_NAME = 128
#: characters of a reason for a person
MAX_REASON = 500
#: characters of what is told of a failed run: as many as an error's message has
MAX_DETAIL = 2000
#: adapters of a node, and agents of an adapter
MAX_ENTRIES = 64
#: the largest capacity that is shown
MAX_NUMBER = 1_000_000


def bounded(message: m.Message) -> m.Message:
    """Return a node's message with nothing in it that is too much to keep; what fits comes back as it is."""
    bound = _BOUNDS.get(type(message))
    return message if bound is None else bound(message)


def _end(end: m.End) -> m.End:
    if end.failure is None and end.detail is None:
        return end
    known = end.failure if end.failure is None or end.failure in m.FAILURES else "broken"
    return replace(end, failure=known, detail=None if end.detail is None else end.detail[:MAX_DETAIL])


def _health(health: m.ProviderHealth) -> m.ProviderHealth:
    return health if health.reason is None else replace(health, reason=_told(health.reason, MAX_REASON))


def _ready(ready: m.Ready) -> m.Ready:
    return replace(ready, adapters=_adapters(ready.adapters[:MAX_ENTRIES])) if ready.adapters else ready


def _hello(hello: m.Hello) -> m.Hello:
    return replace(
        hello,
        instance_id=_told(hello.instance_id),
        version=_told(hello.version),
        release_id=_told(hello.release_id),
        platform=_told(hello.platform),
        running=tuple(replace(work, request_id=_told(work.request_id)) for work in hello.running),
    )


def _adapters(said: tuple[m.AdapterInfo, ...]) -> tuple[m.AdapterInfo, ...]:
    """Only the first `cli` has agents: a node has one."""
    first = next((at for at, info in enumerate(said) if info.type == "cli"), None)
    return tuple(_adapter(info if at == first else replace(info, targets=())) for at, info in enumerate(said))


def _adapter(info: m.AdapterInfo) -> m.AdapterInfo:
    return replace(
        info,
        name=_told(info.name),
        max_concurrency=max(0, min(info.max_concurrency, MAX_NUMBER)),
        targets=tuple(
            replace(
                target,
                name=_told(target.name),
                kind=_told(target.kind),
                reason=None if target.reason is None else _told(target.reason, MAX_REASON),
            )
            for target in info.targets[:MAX_ENTRIES]
        ),
    )


def _told(text: str, most: int = MAX_NAME) -> str:
    """Cut a text, and leave nothing in it that could steer a terminal or break a line of a log."""
    cut = text[:most]
    return cut if cut.isprintable() else "".join(char if char.isprintable() else "?" for char in cut)


#: only these messages have words of the node in them
_BOUNDS: dict[type, Callable[[Any], m.Message]] = {
    m.Hello: _hello,
    m.Ready: _ready,
    m.ProviderHealth: _health,
    m.End: _end,
}
