"""How a case ends: recorded trouble and bad verdicts fail it in words, without a page of traceback."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from iop.admin.wire import AdminRefused, AdminUnreachable
from smoke.facts import judge_fact
from smoke.history import Seen, now
from smoke.rounds import Bench, Blocked
from smoke.view import Verdict


def hold(verdicts: Sequence[Verdict]) -> None:
    """Fail with every verdict that is not good, and when there is none at all."""
    bad = [f"{verdict.name}: {verdict.detail}" for verdict in verdicts if not verdict.ok]
    if not verdicts:
        pytest.fail("nothing was judged", pytrace=False)
    if bad:
        pytest.fail("\n".join(bad), pytrace=False)


def see(bench: Bench, case: str, name: str, data: dict[str, Any]) -> None:
    """Record a fact and hold the case against its verdicts."""
    fact = Seen(now(), case, name, data)
    bench.history.append(fact)
    hold(judge_fact(bench.env, fact))


@contextmanager
def blockers(bench: Bench, case: str) -> Iterator[None]:
    """Make a blocker of an address that does not answer, and fail with blockers in words."""
    reason = None
    try:
        yield
    except Blocked as error:
        reason = error
    except httpx.TransportError as error:
        reason = bench.blocked(case, f"{error.request.url} does not answer: {str(error) or type(error).__name__}")
    except (AdminUnreachable, AdminRefused) as error:
        reason = bench.blocked(case, str(error))
    if reason is not None:
        pytest.fail(f"blocked: {reason}", pytrace=False)
