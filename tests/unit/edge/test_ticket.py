"""Tickets: what a request learns of its place, and who begins with its slot."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from iop.domain.effects import Lease, Outcome
from iop.domain.errors import IopError
from iop.domain.law import violations
from iop.domain.specs import Ask, LineBounds, PoolSpec, ProviderSpec
from tests.fakes.door_rig import DoorRig


@pytest.fixture
async def rig() -> AsyncIterator[DoorRig]:
    """A door with one slot, whose invariants hold at the end."""
    made = DoorRig(LineBounds(max_waiting=2, max_wait=60.0))
    yield made
    made.door.close()
    assert violations(made.door.snapshot()) == []


async def test_a_returned_request_waits_again_and_gets_its_error(rig: DoorRig) -> None:
    """Given back with no other candidate: the same ticket tells the 502."""
    ticket = rig.door.ask(Ask("a", "m"))
    rig.door.give_back(await ticket.lease(), "unreachable")

    with pytest.raises(IopError) as told:
        await ticket.lease()
    assert (told.value.status, told.value.code) == (502, "upstream_unreachable")


async def test_a_grant_to_a_client_that_left_is_given_back(rig: DoorRig) -> None:
    """Field case B47: the slot came in the very moment the client left; nothing leaks."""
    first = rig.door.ask(Ask("a", "m"))
    second = rig.door.ask(Ask("b", "m"))
    task = asyncio.ensure_future(second.lease())
    await asyncio.sleep(0)
    rig.door.end(await first.lease(), Outcome.COMPLETED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    second.leave()

    assert rig.door.load().in_flight == 0
    assert rig.door.snapshot().totals.cancelled == 1


async def test_leaving_the_line_is_abandoning(rig: DoorRig) -> None:
    """A waiter that leaves frees its place; leaving twice changes nothing."""
    rig.door.ask(Ask("a", "m"))
    waiter = rig.door.ask(Ask("b", "m"))
    waiter.leave()
    waiter.leave()

    assert rig.door.load().queued == 0
    assert rig.published[-1] == "abandoned:b"


async def test_a_ticket_tells_how_it_ended_without_a_run(rig: DoorRig) -> None:
    """In the words of the events: refused, expired, failed, abandoned; cancelled for a slot that nobody began with."""
    door = rig.door
    holder, waiter, leaver, refused = (door.ask(Ask(name, "m")) for name in "abcd")
    lease = await holder.lease()
    leaver.leave()
    assert (holder.fate, waiter.fate, leaver.fate, refused.fate) == (None, None, "abandoned", "refused")
    door.end(lease, Outcome.COMPLETED)
    waiter.leave()
    assert waiter.fate == "cancelled"
    again = door.ask(Ask("e", "m"))
    late = door.ask(Ask("f", "m"))
    door.give_back(await again.lease(), "reset")
    assert again.fate == "failed"
    await late.lease()
    last = door.ask(Ask("g", "m"))
    door.expire_all()
    assert last.fate == "expired"
    for ticket in (refused, again, last):
        with pytest.raises(IopError):
            await ticket.lease()
        ticket.leave()
    door.node_lost("n", 1)
    holder.leave()
    late.leave()


async def test_a_wait_can_be_broken_off_and_taken_up_again(rig: DoorRig) -> None:
    """Its holder may look after something else meanwhile; the place in line is the same."""
    first, second = (rig.door.ask(Ask(name, "m")) for name in "ab")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.lease(), 0.001)
    rig.door.end(await first.lease(), Outcome.COMPLETED)
    rig.door.end(await second.lease(), Outcome.COMPLETED)
    assert rig.published == ["granted:a", "queued:b", "ended:a", "granted:b", "ended:b"]


async def test_a_callback_begins_with_the_slot_in_the_turn_of_the_end(rig: DoorRig) -> None:
    """When `end` returns, the next in line has begun; its lease is told once more, its leaving gives nothing back."""
    first, second = (rig.door.ask(Ask(name, "m")) for name in "ab")
    begun: list[Lease] = []
    second.on_grant(begun.append)
    rig.door.end(await first.lease(), Outcome.COMPLETED)

    assert [lease.request_id for lease in begun] == ["b"]
    assert not second.handed_over
    assert await second.lease() is begun[0]
    second.leave()
    assert rig.door.load().in_flight == 1
    rig.door.end(begun[0], Outcome.COMPLETED)


async def test_what_a_new_config_grants_is_begun_with_later(rig: DoorRig) -> None:
    """Its nodes must be sent it first: the grant is told by `lease()` alone."""
    first, second = (rig.door.ask(Ask(name, "m")) for name in "ab")
    begun: list[Lease] = []
    second.on_grant(begun.append)
    rig.door.configure(PoolSpec((ProviderSpec("p", "n", 2),), {"m": ("p",)}, LineBounds(max_waiting=2, max_wait=60.0)))

    assert second.handed_over
    assert begun == []
    lease = await second.lease()
    assert lease.request_id == "b"
    rig.door.end(lease, Outcome.COMPLETED)
    rig.door.end(await first.lease(), Outcome.COMPLETED)


async def test_a_callback_that_raises_harms_nobody(rig: DoorRig, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, those behind it are served, and its own slot is given back when its client goes."""
    first, second, third = (rig.door.ask(Ask(name, "m")) for name in "abc")
    second.on_grant(lambda lease: lease.nothing)  # type: ignore[attr-defined]
    begun: list[Lease] = []
    third.on_grant(begun.append)
    with caplog.at_level(logging.ERROR):
        rig.door.end(await first.lease(), Outcome.COMPLETED)
    assert "request b" in caplog.text
    assert second.handed_over
    assert begun == []
    second.leave()
    assert second.fate == "cancelled"
    assert [lease.request_id for lease in begun] == ["c"]
    rig.door.end(begun[0], Outcome.COMPLETED)


async def test_a_callback_may_give_its_slot_back_at_once() -> None:
    """Its node turns out to be gone: the other provider is tried, then the error is told, all in the same turn."""
    rig = DoorRig(LineBounds(), providers="pq")
    holders = [rig.door.ask(Ask(name, "m")) for name in ("h1", "h2")]
    leases = [await holder.lease() for holder in holders]
    unlucky = rig.door.ask(Ask("unlucky", "m"))
    tried: list[str] = []

    def offline(lease: Lease) -> None:
        tried.append(lease.provider_id)
        rig.door.give_back(lease, "link_lost")

    unlucky.on_grant(offline)
    waiting = asyncio.ensure_future(unlucky.lease())
    await asyncio.sleep(0)
    rig.door.end(leases[0], Outcome.COMPLETED)
    assert tried == ["p"]
    assert not unlucky.refused
    rig.door.end(leases[1], Outcome.COMPLETED)
    assert (tried, unlucky.refused, unlucky.fate) == (["p", "q"], True, "failed")
    with pytest.raises(IopError) as told:
        await waiting
    assert told.value.code == "upstream_unreachable"
    assert [event for event in rig.published if "unlucky" in event] == [
        "queued:unlucky", "granted:unlucky", "returned:unlucky", "granted:unlucky", "ended:unlucky",
    ]  # fmt: skip
    await rig.door.begun()
    assert (rig.door.load().in_flight, violations(rig.door.snapshot())) == (0, [])
    rig.door.close()


async def test_many_callbacks_that_give_back_do_not_nest() -> None:
    """A long chain of hand-overs within one turn is worked off one after the other, in order of arrival."""
    rig = DoorRig(LineBounds(max_waiting=2000))
    first = rig.door.ask(Ask("first", "m"))
    order: list[str] = []

    def finish(lease: Lease) -> None:
        order.append(lease.request_id)
        rig.door.end(lease, Outcome.COMPLETED)

    names = [f"r{number}" for number in range(2000)]
    for name in names:
        rig.door.ask(Ask(name, "m")).on_grant(finish)
    rig.door.end(await first.lease(), Outcome.COMPLETED)
    assert order == names
    rig.door.close()


async def test_a_slot_that_is_taken_back_before_its_holders_turn_is_waited_for_anew(rig: DoorRig) -> None:
    """The holder that was woken for the first grant gets the second one only."""
    first, second = (rig.door.ask(Ask(name, "m")) for name in "ab")
    grants: list[Lease] = []

    def busy_once(lease: Lease) -> None:
        grants.append(lease)
        if len(grants) == 1:
            rig.door.give_back(lease, "busy")

    second.on_grant(busy_once)
    waiting = asyncio.ensure_future(second.lease())
    await asyncio.sleep(0)
    rig.door.end(await first.lease(), Outcome.COMPLETED)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    rig.door.provider_health("p", up=True, reason=None)
    assert await waiting is grants[1]
    rig.door.end(grants[1], Outcome.COMPLETED)


async def test_the_end_of_an_earlier_request_of_the_same_id_tells_the_later_one_nothing(rig: DoorRig) -> None:
    """Work that goes on without its client may fail with its link while a request of the same id waits."""
    gone = rig.door.ask(Ask("a", "m"))
    await gone.lease()
    gone.leave()
    again = rig.door.ask(Ask("a", "m"))
    rig.door.node_connected("n", 2, ())
    assert (again.refused, again.fate) == (False, None)
    rig.door.end(await again.lease(), Outcome.COMPLETED)
    assert rig.published[-3:] == ["ended:a", "granted:a", "ended:a"]
