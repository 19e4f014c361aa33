"""Back to the line: what becomes of a grant whose work failed without an HTTP status and before the first byte."""

from iop.domain import refusals
from iop.domain.effects import Outcome
from iop.domain.errors import IopError
from iop.domain.line import Request
from iop.domain.pool import Held, Pool

#: failures without an HTTP status from the engine: before the first byte they take a request back to the line
FAILURES = frozenset({"unreachable", "reset", "link_lost", "busy", "stopping"})
#: the node itself declined (its gate is full, or it is leaving): no fault of the engine, so nobody is excluded
DECLINED = frozenset({"busy", "stopping"})


def give_back(pool: Pool, held: Held, failure: str, detail: str | None, now: float) -> None:
    """Take the grant back, or end it as failed when its request has nobody left to try; then hand the slot on."""
    reason = f"{failure}: {detail}" if detail else failure
    request, provider = held.request, held.provider
    if request is None:
        pool.close(held, Outcome.FAILED, reason, now)
    elif (error := _no_way_back(pool, request, provider.id, failure)) is not None:
        pool.close(held, Outcome.FAILED, reason, now, error)
    else:
        pool.take_back(held, request, reason, now)
    provider.busy = provider.busy or failure in DECLINED
    if failure == "busy":
        pool.ledger.node_over_capacity += 1
    others = pool.routes.candidates(request) if request is not None and request.place is not None else ()
    pool.dispatch(dict.fromkeys((provider, *others)), now)


def _no_way_back(pool: Pool, request: Request, provider_id: str, failure: str) -> IopError | None:
    """Note the failure; return the error for the client when nobody is left to try."""
    if pool.closed:
        return refusals.shutting_down()
    if failure not in DECLINED:
        request.failures[provider_id] = failure
    if pool.routes.candidates(request):
        return None
    return refusals.unreachable(request.model, request.failures or {provider_id: failure})
