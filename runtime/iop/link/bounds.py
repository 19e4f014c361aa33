"""What a node tells about itself and its work, cut to sizes that the Edge can keep.

A node with the right token is believed, but its words go into every status, into thousands of remembered events and
into logs: each has a length here, each list a number of entries, and a kind of failure that does not exist is a broken
answer.
"""

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
    match message:
        case m.End(failure=failure, detail=detail) if failure is not None or detail is not None:
            known = failure if failure is None or failure in m.FAILURES else "broken"
            return replace(message, failure=known, detail=None if detail is None else detail[:MAX_DETAIL])
        case m.ProviderHealth(reason=str(reason)):
            return replace(message, reason=_told(reason, MAX_REASON))
        case m.Ready(adapters=adapters) if adapters:
            return replace(message, adapters=_adapters(adapters[:MAX_ENTRIES]))
        case m.Hello():
            return _hello(message)
        case _:
            return message


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
