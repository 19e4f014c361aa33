"""What the Control Plane remembers of an Edge."""

import asyncio

import pytest

from iop.admin.wire import AdminRefused, AdminUnreachable
from iop.control.views import Clock, EdgeView, Views
from iop.domain.errors import NotFound, UpstreamError
from tests.fakes.until import until


class FakeReader:
    """Answers with what stands in `answer`: a status, or an exception to raise."""

    def __init__(self, answer):
        self.answer = answer
        self.looks = 0
        self.closed = False

    async def status(self):
        self.looks += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self):
        self.closed = True


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def clock(self):
        return Clock(lambda: self.now, lambda: 1_700_000_000.0 + self.now)


def status(edge_id="e1", **more):
    """Make a status of the Edge `edge_id`."""
    return {"schema": 1, "edge": {"id": edge_id}, **more}


async def test_a_status_is_fetched_when_asked_for():
    """Each ask is a live one, with fresh `control` facts beside the Edge's own keys."""
    time, reader = Time(), FakeReader(status(totals={"in_flight": 3}))
    view = EdgeView("e1", reader, time.clock())
    got = await view.status()
    assert got["totals"] == {"in_flight": 3}
    assert got["control"] == {
        "fetched_at": "2023-11-14T22:15:00.000Z",
        "age_s": 0.0,
        "stale": False,
        "trouble": None,
        "violations": ["status has no totals or no provider_snapshots"],
    }
    await view.status()
    assert reader.looks == 2


@pytest.mark.parametrize("trouble", [AdminUnreachable("gone"), AdminRefused("no", status=500)])
async def test_a_lost_edge_leaves_its_last_status_marked_stale(trouble):
    """When the Edge is gone, the last status comes with its age, `stale` and why."""
    time, reader = Time(), FakeReader(status())
    view = EdgeView("e1", reader, time.clock())
    await view.look()
    time.now += 12.5
    reader.answer = trouble
    got = await view.status()
    control = got["control"]
    assert (control["fetched_at"], control["age_s"], control["stale"]) == ("2023-11-14T22:15:00.000Z", 12.5, True)
    assert control["trouble"] == str(trouble)
    assert view.summary() == {"id": "e1", "reachable": False, "age_s": 12.5}
    reader.answer = status()
    await view.look()
    assert view.summary() == {"id": "e1", "reachable": True, "age_s": 0.0}


async def test_an_edge_that_was_never_reached_is_an_error():
    """Without any status there is nothing to show, and the reason is told."""
    view = EdgeView("e1", FakeReader(AdminUnreachable("http://x refused")), Time().clock())
    with pytest.raises(UpstreamError, match="http://x refused"):
        await view.status()
    assert view.summary() == {"id": "e1", "reachable": False, "age_s": None}


async def test_another_edge_at_the_address_is_not_taken_for_ours():
    """A status of another Edge is never shown under this id."""
    view = EdgeView("e1", FakeReader(status("e2")), Time().clock())
    with pytest.raises(UpstreamError, match="another Edge"):
        await view.status()


async def test_the_law_is_checked_where_the_status_is_shown():
    """`violations` is empty while the counters come out even, and else says where they do not."""
    words = "received refused expired abandoned queued admitted adopted returned completed failed cancelled in_flight"
    totals = dict.fromkeys(words.split(), 0)
    reader = FakeReader(status(totals=totals, provider_snapshots=[]))
    view = EdgeView("e1", reader, Time().clock())
    assert (await view.status())["control"]["violations"] == []
    totals["received"] = 2
    assert (await view.status())["control"]["violations"] == [
        "totals: received 2, but refused 0 + expired 0 + abandoned 0 + queued 0 + (admitted - returned) 0 = 0"
    ]


async def test_an_unknown_edge_names_the_known_ones():
    """The 404 says which ids there are."""
    views = Views([EdgeView("e1", FakeReader(status()), Time().clock())])
    assert views.get("e1").id == "e1"
    with pytest.raises(NotFound, match="known: e1"):
        views.get("e2")


async def test_polling_goes_on_after_trouble(monkeypatch):
    """An Edge that was away is looked at again, until the poll is cancelled."""
    monkeypatch.setattr("iop.control.views.POLL_EVERY_S", 0.001)
    reader = FakeReader(AdminUnreachable("gone"))
    view = EdgeView("e1", reader, Time().clock())
    polling = asyncio.ensure_future(view.poll())
    await until(lambda: reader.looks >= 2)
    reader.answer = status()
    await until(lambda: view.summary()["reachable"])
    polling.cancel()
    await asyncio.wait([polling])


async def test_close_frees_every_reader():
    """The connections to all Edges end with the views."""
    readers = [FakeReader(status()), FakeReader(status())]
    views = Views([EdgeView(f"e{number}", reader, Time().clock()) for number, reader in enumerate(readers)])
    await views.close()
    assert all(reader.closed for reader in readers)
