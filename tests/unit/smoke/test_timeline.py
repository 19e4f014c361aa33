"""The picture's data follows from the event log: who held how many slots when, and how many waited."""

from dataclasses import replace

import msgspec
import pytest

from smoke.timeline import timeline
from tests.fakes.smoke_story import Story, burst, full, snapshot, status


def test_a_burst_is_the_plateau_the_one_in_line_and_the_return() -> None:
    """Three slots fill one by one, one waits, it takes the slot that comes free, and everything returns to 0/0."""
    data = timeline(burst().view())

    assert data is not None
    assert [(point["inFlight"], point["queued"]) for point in data["points"]] == [
        ({"a": 0, "b": 0}, 0),  # before
        ({"a": 0, "b": 1}, 0),
        ({"a": 1, "b": 1}, 0),
        ({"a": 1, "b": 2}, 0),
        ({"a": 1, "b": 2}, 1),  # full, and one in line
        ({"a": 1, "b": 1}, 1),
        ({"a": 1, "b": 2}, 0),  # it is served
        ({"a": 0, "b": 2}, 0),
        ({"a": 0, "b": 1}, 0),
        ({"a": 0, "b": 0}, 0),
        ({"a": 0, "b": 0}, 0),  # after
    ]
    assert data["capacity"] == 3
    assert data["providers"] == [{"id": "a", "capacity": 1}, {"id": "b", "capacity": 2}]


def test_providers_stand_in_the_order_of_the_live_page() -> None:
    """The drawing gives colours by place: what the Edge lists first is first here, whatever the inventory's order."""
    view = burst().view()
    turned = replace(view, env=msgspec.structs.replace(view.env, capacities={"b": 2, "a": 1}))

    data = timeline(turned)

    assert data is not None
    assert data["providers"] == [{"id": "a", "capacity": 1}, {"id": "b", "capacity": 2}]


def test_time_is_counted_from_the_first_event_with_a_margin_of_quiet() -> None:
    """The first event is at 0 s; before and after it a little of the quiet is shown."""
    data = timeline(burst().view())

    assert data is not None
    times = [point["at"] for point in data["points"]]
    assert times[1:-1] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    assert data["from"] == times[0] == -0.05
    assert data["to"] == times[-1] == 0.85


def test_events_of_one_moment_are_one_point_and_a_clock_set_back_turns_nothing_around() -> None:
    """The log's order is that of its numbers; its clock only places points."""
    view = burst().view()
    same = [{**event, "at": view.events[0]["at"]} for event in view.events]
    back = [*view.events[:3], *({**event, "at": view.events[0]["at"]} for event in view.events[3:])]

    still, turned = timeline(replace(view, events=tuple(same))), timeline(replace(view, events=tuple(back)))
    assert still is not None
    assert turned is not None
    assert [(point["inFlight"], point["queued"]) for point in still["points"]] == [({"a": 0, "b": 0}, 0)] * 3
    assert [point["at"] for point in turned["points"]] == sorted(point["at"] for point in turned["points"])


def test_a_round_that_begins_loaded_begins_with_what_its_first_status_showed() -> None:
    """What was held before the first event is not drawn as nothing."""
    story = Story()
    story.held["old"] = "b"
    story.grant("r1", "b")
    loaded = status()["provider_snapshots"]
    loaded[1]["in_flight"] = 1
    shown = snapshot(provider_snapshots=loaded, totals={**status()["totals"], "in_flight": 1, "queued": 2})
    data = timeline(replace(story.view(), snapshots=(shown,)))

    assert data is not None
    assert (data["points"][0]["inFlight"], data["points"][0]["queued"]) == ({"a": 0, "b": 1}, 2)
    assert data["points"][1]["inFlight"] == {"a": 0, "b": 2}


def test_of_nothing_there_is_no_picture() -> None:
    """A round without events, or of a history that lost them, has no timeline."""
    assert timeline(replace(full().view(), events=())) is None
