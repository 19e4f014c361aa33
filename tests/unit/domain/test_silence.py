"""Suspect by turnover: a full provider with waiters of which nothing is heard."""

from collections.abc import Callable
from functools import partial

import pytest

from iop.domain.effects import Effect, EffectType, Outcome
from iop.domain.silence import Silence
from iop.domain.snapshots import ProviderState
from iop.domain.specs import Ask
from tests.fakes.cost import lines_run
from tests.fakes.desk import Desk, pool_of, terse

SUSPECT, READY = ProviderState.SUSPECT, ProviderState.READY


def told(effects: tuple[Effect, ...]) -> list[str | None]:
    """The reasons of provider events."""
    return [effect.reason for effect in effects if effect.type is EffectType.PROVIDER]


def wedged(*, streams: bool = True, **options: float) -> Desk:
    """Provider `a` with one slot, held by `r1` since 100, and a waiter `w1`; nobody is offline for good."""
    desk = Desk({"a": 1}, max_wait=1e6, wedge_after=20.0, **options)
    desk.ask("r1", "w1", streams=streams)
    return desk


def suspected(*, streams: bool = True) -> Desk:
    """The same, found suspect at 120."""
    desk = wedged(streams=streams)
    if not streams:
        desk.do("probe_silent", "a")
    desk.now = 120.0
    desk.do("tick")
    assert desk.provider("a").state is SUSPECT
    return desk


def test_full_with_waiters_and_a_silent_stream_is_suspect_after_wedge_after() -> None:
    """Not a moment earlier; the event and the status say for how long and what was seen."""
    desk = wedged()
    assert desk.admission.next_wakeup() == 120.0
    desk.now = 119.9
    assert desk.do("tick") == ()
    desk.now = 120.0
    text = "no byte and no end for 20s, full and with requests waiting; 1 silent stream"
    assert told(desk.do("tick")) == [f"suspect: {text}"]
    desk.now = 131.5
    assert desk.do("tick") == ()
    assert (desk.provider("a").state, desk.provider("a").reason) == (SUSPECT, text.replace("20s", "31.5s"))


def test_an_engine_that_does_not_answer_its_probe_is_suspect_without_streams() -> None:
    """Requests in one piece say nothing by their silence; that of the probe beside them does."""
    desk = wedged(streams=False)
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    desk.now = 150.0
    assert desk.do("tick") == desk.do("probe_silent", "a") == ()
    assert desk.admission.next_wakeup() == 120.0
    text = "suspect: no byte and no end for 50s, full and with requests waiting; its engine does not answer the probe"
    assert told(desk.do("tick")) == [text]
    assert desk.do("probe_silent", "unknown") == ()


def test_what_does_not_stream_and_answers_its_probe_is_never_suspect() -> None:
    """However long one answer in one piece takes."""
    desk = wedged(streams=False)
    desk.now = 1e5
    desk.do("provider_health", "a", True, None)
    assert desk.do("tick") == ()
    assert desk.provider("a").state is READY


def test_a_free_slot_or_an_empty_line_makes_nobody_suspect() -> None:
    """It is turnover that is missed: of a provider that is full, while somebody waits whom it could serve."""
    desk = Desk({"a": 2, "b": 1}, {"m": ("a",), "other": ("b",)}, max_wait=1e6, wedge_after=20.0)
    desk.ask("r1", streams=True)
    desk.ask("r2", "w2", model="other")
    desk.now = 200.0
    assert desk.do("tick") == ()
    desk.ask("r3", streams=True)  # full now, but nobody waits for it
    assert desk.do("tick") == ()
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    desk.ask("w1")
    assert desk.admission.next_wakeup() == 120.0
    assert terse(desk.do("tick")) == [("provider", "a")]


def test_only_what_began_long_ago_is_a_silent_stream() -> None:
    """A stream that has just begun is no evidence, though the answer in one piece beside it runs for long."""
    desk = Desk({"a": 2}, max_wait=1e6, wedge_after=20.0)
    desk.ask("r1")
    desk.now = 150.0
    desk.ask("r2", streams=True)
    desk.ask("w1")
    assert desk.admission.next_wakeup() == 170.0


def test_any_byte_clears_it() -> None:
    """A byte of any of its work, told by an event; its silence counts anew from there."""
    desk = suspected()
    desk.now = 125.0
    assert told(desk.do("sign_of_life", desk.lease_of("r1"))) == ["ready"]
    assert desk.provider("a").reason is None
    assert desk.admission.next_wakeup() == 145.0
    assert desk.do("sign_of_life", 99) == ()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("failure", [None, "reset"])
def test_any_end_clears_it(failure: str | None, streams: bool) -> None:
    """A whole answer, or a failure that takes the request back: the slot has turned over."""
    desk = suspected(streams=streams)
    if failure is None:
        happened = terse(desk.do("end", desk.lease_of("r1"), Outcome.COMPLETED))
    else:
        happened = terse(desk.do("give_back", desk.lease_of("r1"), failure))
    assert happened[1:] == [("provider", "a"), ("granted", "w1", "a")]
    assert desk.provider("a").state is READY


def test_a_good_probe_clears_it_only_without_a_silent_stream() -> None:
    """VLLM can stop its streams and go on answering its probe."""
    desk = suspected(streams=False)
    desk.now = 130.0
    assert told(desk.do("provider_health", "a", True, None)) == ["ready"]
    desk = suspected()
    desk.now = 130.0
    assert desk.do("provider_health", "a", True, None) == ()
    assert desk.provider("a").state is SUSPECT


def test_a_good_probe_clears_it_when_its_streams_are_young() -> None:
    """What began less than wedge_after ago has not been silent for so long; it becomes evidence later."""
    desk = Desk({"a": 2}, max_wait=1e6, wedge_after=20.0)
    desk.ask("r1")
    desk.now = 110.0
    desk.ask("r2", streams=True)
    desk.ask("w1")
    desk.do("probe_silent", "a")
    desk.now = 120.0
    assert desk.do("tick")
    assert told(desk.do("provider_health", "a", True, None)) == ["ready"]
    assert desk.admission.next_wakeup() == 130.0


def test_it_gets_no_new_work_while_silent_and_all_it_can_take_afterwards() -> None:
    """Not by growth, not by its admin's check, not when its waiters have gone; a byte starts what fits."""
    desk = suspected()
    grown = {"a": 3}
    desk.do("configure", pool_of(grown, wedge_after=20.0, max_wait=1e6))
    assert desk.provider("a").state is SUSPECT
    assert terse(desk.do("ask", Ask("check", "m", check="a"))) == [("queued", "check")]
    desk.do("abandon", "w1")
    desk.ask("w2")
    assert desk.provider("a").in_flight == 1
    happened = terse(desk.do("sign_of_life", desk.lease_of("r1")))
    assert happened == [("provider", "a"), ("granted", "check", "a"), ("granted", "w2", "a")]


def test_waiters_go_to_another_provider_meanwhile() -> None:
    """Who can be served elsewhere is."""
    desk = Desk({"a": 1, "b": 1}, max_wait=1e6, wedge_after=20.0)
    desk.ask("r1", "r2", "w1", "w2", streams=True)
    desk.now = 110.0
    desk.do("sign_of_life", desk.lease_of("r2"))
    desk.now = 120.0
    assert terse(desk.do("tick")) == [("provider", "a")]
    assert desk.end("r2")[-1] == ("granted", "w1", "b")
    assert (desk.provider("a").state, desk.provider("b").state) == (SUSPECT, READY)


def test_suspect_counts_as_coming_back() -> None:
    """The grace of its waiters does not run, and does when the engine is down."""
    desk = wedged(offline_grace=5.0)
    desk.now = 120.0
    desk.do("tick")
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    desk.do("provider_health", "a", False, "refused")
    assert desk.admission.next_wakeup() == 125.0


def test_down_draining_and_offline_are_shown_before_it() -> None:
    """The suspicion stays beneath and shows again when they end."""
    desk = suspected()
    assert told(desk.do("provider_health", "a", False, "refused")) == ["down: refused"]
    assert told(desk.do("drain", "n-a", 900.0, "upgrade")) == ["draining: upgrade"]
    desk.do("undrain", "n-a")
    (shown,) = told(desk.do("provider_health", "a", True, None))
    assert shown is not None
    assert shown.startswith("suspect: no byte")


def test_a_byte_while_it_drains_is_not_lost() -> None:
    """What clears a suspicion does so beneath another state too."""
    desk = suspected()
    desk.do("drain", "n-a", 900.0, None)
    desk.now = 121.0
    assert desk.do("sign_of_life", desk.lease_of("r1")) == ()
    assert told(desk.do("undrain", "n-a")) == ["ready"]


def test_bytes_that_we_do_not_take_make_nobody_suspect() -> None:
    """While its client does not read, nothing can come of a run; once it reads again, silence counts from then."""
    desk = wedged()
    desk.do("probe_silent", "a")
    desk.do("held_up", desk.lease_of("r1"))
    desk.now = 500.0
    assert desk.do("tick") == ()
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    assert desk.do("sign_of_life", desk.lease_of("r1")) == ()  # a last piece, from before
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    desk.now = 600.0
    assert desk.do("resumed", desk.lease_of("r1")) == ()
    assert desk.admission.next_wakeup() == 620.0
    desk.now = 610.0
    assert desk.do("resumed", desk.lease_of("r1")) == ()  # it did not stop in between
    assert desk.admission.next_wakeup() == 620.0
    assert desk.do("held_up", 99) == desk.do("resumed", 99) == ()


def test_the_end_of_what_was_held_up_is_the_end_of_the_excuse() -> None:
    """The next one's silence counts."""
    desk = wedged()
    desk.do("held_up", desk.lease_of("r1"))
    desk.ask("w2", streams=True)
    desk.now = 200.0
    desk.do("end", desk.lease_of("r1"), Outcome.CANCELLED)
    assert desk.admission.next_wakeup() == 220.0


def test_what_goes_on_without_its_client_is_judged_by_the_probe() -> None:
    """Nothing of it is passed on, so its silence says nothing from then on, held up before or not."""
    desk = wedged()
    desk.now = 110.0
    desk.do("held_up", desk.lease_of("r1"))
    desk.now = 115.0
    assert desk.do("unheard", desk.lease_of("r1")) == ()
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    desk.do("probe_silent", "a")
    assert desk.admission.next_wakeup() == 135.0
    desk = wedged()
    desk.now = 110.0
    desk.do("unheard", desk.lease_of("r1"))
    desk.do("probe_silent", "a")
    assert desk.admission.next_wakeup() == 120.0
    assert desk.do("unheard", 99) == ()


def test_adopted_work_is_judged_by_the_probe() -> None:
    """Its bytes do not come here; a silent engine that is full of it is suspect nevertheless."""
    desk = Desk({"a": 1}, connect=False, max_wait=1e6, wedge_after=20.0)
    desk.do("node_connected", "n-a", 1, [("a", "old")])
    desk.ask("w1")
    assert desk.admission.next_wakeup() == 1e6 + 100.0
    desk.do("probe_silent", "a")
    assert desk.admission.next_wakeup() == 120.0


def test_a_new_link_knows_of_no_silent_probe() -> None:
    """What an older link told of the engine is forgotten, and the end of its work clears the suspicion."""
    desk = suspected(streams=False)
    desk.now = 150.0
    happened = desk.do("node_connected", "n-a", 2, [("a", "r1")])
    assert told(happened) == ["ready"]
    assert desk.provider("a").in_flight == 1
    assert desk.admission.next_wakeup() == 1e6 + 100.0


def test_a_shorter_wedge_after_holds_at_once() -> None:
    """A refresh applies it to what is silent already."""
    desk = wedged()
    desk.now = 110.0
    desk.do("configure", pool_of({"a": 1}, wedge_after=5.0, max_wait=1e6))
    assert desk.admission.next_wakeup() == 105.0


def test_the_words_count_silent_streams() -> None:
    """One or many, and both signs when both were seen."""
    silence = Silence(heard_at=10.0, answers=False, limit=5.0, streams={1: 0.0, 2: 9.0, 3: 18.0})
    assert silence.describe(20.0) == (
        "no byte and no end for 10s, full and with requests waiting; 2 silent streams; "
        "its engine does not answer the probe"
    )


def _costs(length: int, step: Callable[[Desk], Callable[[], object]]) -> int:
    desk = Desk({"a": 1}, max_waiting=length + 1, max_wait=1e6, wedge_after=20.0)
    desk.admission.ask(Ask("r1", "m", streams=True), 100.0)
    for number in range(length):
        desk.admission.ask(Ask(f"w{number}", "m"), 100.0)
    return lines_run(step(desk))


@pytest.mark.parametrize(
    "step",
    [
        lambda desk: desk.admission.next_wakeup,
        lambda desk: partial(desk.admission.sign_of_life, 1, 101.0),
        lambda desk: partial(desk.admission.tick, 120.0),
    ],
)
def test_the_watch_costs_the_same_in_a_short_and_a_long_line(step: Callable[[Desk], Callable[[], object]]) -> None:
    """A byte, the next wake-up and a finding cost as much with 10 waiters as with 3,000."""
    assert _costs(10, step) == _costs(3000, step)


def test_a_byte_costs_a_look_up() -> None:
    """Each chunk of each stream pays it."""
    desk = wedged()
    assert lines_run(lambda: desk.admission.sign_of_life(1, 101.0)) < 15
