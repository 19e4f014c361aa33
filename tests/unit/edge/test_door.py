"""The door: the admission machine with time and tickets around it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvloop

from iop.domain.effects import Lease, Outcome
from iop.domain.errors import IopError
from iop.domain.law import violations
from iop.domain.snapshots import NodeState
from iop.domain.specs import Ask, LineBounds
from tests.fakes.door_rig import DoorRig
from tests.fakes.until import until


@pytest.fixture
async def harness() -> AsyncIterator[DoorRig]:
    """A harness whose invariants hold at the end."""
    made = DoorRig(LineBounds(max_waiting=2, max_wait=60.0))
    yield made
    made.door.close()
    assert violations(made.door.snapshot()) == []


async def test_a_freed_slot_wakes_the_next_in_line(harness: DoorRig) -> None:
    """The second request waits for the first one's end and then holds the slot."""
    first = harness.door.ask(Ask("a", "m"))
    second = harness.door.ask(Ask("b", "m"))
    lease = await first.lease()
    waiting = asyncio.ensure_future(second.lease())
    harness.door.end(lease, Outcome.COMPLETED)

    assert (await waiting).request_id == "b"
    assert harness.published == ["granted:a", "queued:b", "ended:a", "granted:b"]
    harness.door.end(await second.lease(), Outcome.COMPLETED)


async def test_a_full_line_refuses(harness: DoorRig) -> None:
    """Beyond the bound the ticket's lease raises the 429."""
    tickets = [harness.door.ask(Ask(name, "m")) for name in "abcd"]

    with pytest.raises(IopError) as refused:
        await tickets[3].lease()
    assert (refused.value.status, refused.value.code) == (429, "queue_full")


async def test_a_busy_node_returns_the_request_to_the_line(harness: DoorRig) -> None:
    """`busy` excludes nobody: the request is granted again after the next good probe."""
    ticket = harness.door.ask(Ask("a", "m"))
    harness.door.give_back(await ticket.lease(), "busy")
    waiting = asyncio.ensure_future(ticket.lease())
    harness.door.provider_health("p", up=True, reason=None)

    lease = await waiting
    assert lease.request_id == "a"
    harness.door.end(lease, Outcome.COMPLETED)


async def test_a_wait_ends_at_its_deadline() -> None:
    """The timer expires a waiter: 503 queue_timeout."""
    made = DoorRig(LineBounds(max_wait=0.01))
    first = made.door.ask(Ask("a", "m"))
    second = made.door.ask(Ask("b", "m"))

    with pytest.raises(IopError) as told:
        await second.lease()
    assert (told.value.status, told.value.code) == (503, "queue_timeout")
    made.door.end(await first.lease(), Outcome.COMPLETED)
    made.door.close()


async def test_two_live_requests_of_one_id_are_kept_apart(harness: DoorRig) -> None:
    """A client may repeat its x-request-id; the second gets a number."""
    first = harness.door.ask(Ask("same", "m"))
    second = harness.door.ask(Ask("same", "m"))

    assert (first.request_id, second.request_id) == ("same", "same~2")
    first.leave()
    second.leave()


async def test_idle_and_shutdown(harness: DoorRig) -> None:
    """After shut_down newcomers get 503 shutting_down; idle() ends when the last slot is free."""
    ticket = harness.door.ask(Ask("a", "m"))
    lease = await ticket.lease()
    harness.door.shut_down()
    with pytest.raises(IopError) as told:
        await harness.door.ask(Ask("b", "m")).lease()
    idle = asyncio.ensure_future(harness.door.idle())
    harness.door.end(lease, Outcome.COMPLETED)
    await idle

    assert told.value.code == "shutting_down"


async def test_a_check_of_one_provider_passes_a_drain(harness: DoorRig) -> None:
    """The admin's check runs on a draining provider; other requests wait."""
    harness.door.drain("n", 60.0, "maintenance")
    other = harness.door.ask(Ask("a", "m"))
    check = harness.door.ask(Ask("c", "m", check="p"))

    assert (await check.lease()).provider_id == "p"
    assert harness.door.load().queued == 1
    harness.door.end(await check.lease(), Outcome.COMPLETED)
    harness.door.undrain("n")
    harness.door.end(await other.lease(), Outcome.COMPLETED)


@pytest.fixture
async def wedged() -> AsyncIterator[tuple[DoorRig, Lease]]:
    """A silent stream on the only slot, one waiter, and a wedge_after of 5 ms; both end with the test."""
    made = DoorRig(LineBounds(), wedge_after=0.005)
    first = await made.door.ask(Ask("a", "m", streams=True)).lease()
    second = made.door.ask(Ask("b", "m"))
    yield made, first
    made.door.end(first, Outcome.COMPLETED)
    made.door.end(await second.lease(), Outcome.COMPLETED)
    made.door.close()


def _state(harness: DoorRig) -> str:
    return harness.door.snapshot().providers[0].state.value


async def test_the_timer_finds_a_silent_provider_and_a_byte_clears_it(wedged: tuple[DoorRig, Lease]) -> None:
    """Nobody has to ask: it is suspect by itself, ready with the next byte, and suspect again when that was all."""
    harness, lease = wedged
    await until(lambda: _state(harness) == "suspect")
    harness.door.heard(lease)
    assert _state(harness) == "ready"
    await until(lambda: _state(harness) == "suspect")


async def test_a_run_that_is_held_up_excuses_its_provider_until_it_is_read_again(
    wedged: tuple[DoorRig, Lease],
) -> None:
    """Reading again starts the clock, with no other event."""
    harness, lease = wedged
    harness.door.held_up(lease)
    harness.door.heard(lease)
    assert harness.door._admission.next_wakeup() is not None  # b's own deadline
    assert harness.door._admission.next_wakeup() > harness.door.loop.time() + 60.0
    harness.door.resumed(lease)
    await until(lambda: _state(harness) == "suspect")


async def test_without_its_client_only_the_probe_tells(wedged: tuple[DoorRig, Lease]) -> None:
    """What goes on unread is no evidence; the engine's silence to a probe is."""
    harness, lease = wedged
    harness.door.heard(lease)
    harness.door.unheard(lease)
    assert harness.door._admission.next_wakeup() > harness.door.loop.time() + 60.0
    harness.door.probe_silent("p")
    await until(lambda: _state(harness) == "suspect")
    harness.door.provider_health("p", up=True, reason=None)
    assert _state(harness) == "ready"


async def test_a_nodes_state_is_told_alone(harness: DoorRig) -> None:
    """One look-up, for the direct route."""
    assert harness.door.node_state("n") is NodeState.CONNECTED
    assert harness.door.node_state("other") is None


async def test_begun_waits_for_a_holder_that_has_not_gone_on(harness: DoorRig) -> None:
    """While a slot is handed over and its holder has not had its turn, it waits; for those in line it does not."""
    first = harness.door.ask(Ask("a", "m"))
    second = harness.door.ask(Ask("b", "m"))
    begun = asyncio.ensure_future(harness.door.begun())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not begun.done()
    lease = await first.lease()
    await begun
    harness.door.end(lease, Outcome.COMPLETED)
    assert second.handed_over
    second.leave()  # its client is gone: nobody goes on with it
    await harness.door.begun()


async def test_begun_does_not_wait_for_ever(harness: DoorRig) -> None:
    """A holder that never goes on holds up nobody."""
    ticket = harness.door.ask(Ask("a", "m"))
    await harness.door.begun()
    assert ticket.handed_over
    ticket.leave()


def test_a_timer_that_is_due_at_once_holds_up_nobody() -> None:
    """On uvloop such a timer does not tell when it is due; whoever changes the pool in the same turn is served."""

    async def scenario() -> None:
        made = DoorRig(LineBounds(max_waiting=2, max_wait=60.0))
        made.door.drain("n", 0.0001, None)
        made.door.undrain("n")
        assert made.door.node_state("n") is NodeState.CONNECTED
        made.door.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
