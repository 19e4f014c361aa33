"""The report tells what was observed, first of all that it is only loopback, and what stood in the way."""

from dataclasses import replace

import msgspec

from smoke import report
from smoke.history import Blocker
from smoke.judgement import judge
from tests.fakes.smoke_story import burst, engine, records


def text(*more: Blocker, banner: str = "") -> str:
    """The report of a good burst."""
    view = burst().view()
    view = replace(view, engines=(engine("a", peak=1, runs=1), engine("b", peak=2, runs=3)))
    env, *rest = records(view)
    judgement = judge([msgspec.structs.replace(env, banner=banner), *rest, *more])
    return "\n".join(report.lines("run1", judgement, {"test_x": "passed"}, "the closing line"))


def test_the_banner_is_the_first_line() -> None:
    """A report on simulated engines cannot be taken for one on machines."""
    assert text(banner="LOOPBACK, SIMULATED ENGINES").startswith("LOOPBACK, SIMULATED ENGINES\n\n# Smoke of test")
    assert text().startswith("# Smoke of test, run run1\n\n**the closing line**")


def test_observed_maxima_versions_and_outcomes_are_written_down() -> None:
    """Per burst: requests, in flight, queued, per provider, the engines' counters; versions and releases; tests."""
    found = text()

    assert "| case | 4 | 3/3 | 1 | 0/0 | a 1/1; b 2/2 | 0 in flight, 0 queued in 2 looks | a 1; b 2 |" in found
    assert "| Edge edge-test | 1 | rel |" in found
    assert "| node n2 | 1 | rel |" in found
    assert "- passed: test_x" in found
    assert "Blockers" not in found


def test_real_hosts_are_named() -> None:
    """Evidence says which machines it is about."""
    env, *rest = records(burst().view())
    named = msgspec.structs.replace(env, hosts={"gx10": "10.0.0.2", "mac": "10.0.0.1"})
    found = "\n".join(report.lines("run1", judge([named, *rest]), {}, "line"))

    assert "Hosts: gx10 at 10.0.0.2, mac at 10.0.0.1." in found
    assert "Hosts:" not in text()


def test_blockers_are_told_once_with_their_reason() -> None:
    """The same trouble met by two cases is one line."""
    found = text(Blocker(1.0, "one", "node n2 is offline"), Blocker(2.0, "two", "node n2 is offline"))

    assert found.count("node n2 is offline") == 1
    assert "- **node n2 is offline** (first met by one)" in found


def test_a_void_round_and_a_failed_verdict_stay_visible() -> None:
    """Nothing that went wrong is left out, and no text can break the table."""
    view = burst().view()
    failing = replace(view, requests=view.requests[1:])
    lost = replace(view, round=msgspec.structs.replace(view.round, round_id="r0"), events=())
    judgement = judge(
        [*records(failing), lost.round, *(msgspec.structs.replace(s, round_id="r0") for s in lost.snapshots)]
    )
    found = "\n".join(report.lines("run1", judgement, {}, "line"))

    assert "**failed**: all succeed (3 of 4)" in found
    assert "void round r0: the event log is not whole" in found


def test_how_the_run_was_started_is_written_down() -> None:
    """The command and what it ran on; a history that does not know says nothing of it."""
    env, *rest = records(burst().view())
    named = msgspec.structs.replace(env, command="pytest smoke/ --target dev", runner="Python 3")
    found = "\n".join(report.lines("run1", judge([named, *rest]), {}, "line"))

    assert "Run by `pytest smoke/ --target dev`, Python 3." in found
    assert "Run by" not in text()
