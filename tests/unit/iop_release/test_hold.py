"""iop_release.hold: one run at a time changes a host, whichever machine or checkout it comes from."""

import json
import threading
from pathlib import Path

import pytest

from iop_release.errors import ReleaseError
from iop_release.hold import Run, let_go, path_of, take

NOW = 1_800_000_000.0
ANNA = Run("20270115T080000Z-dev-runtime-7", "anna@laptop:/home/anna/iop", "anna key")
AGAIN = Run("20270115T081500Z-dev-runtime-9", ANNA.holder, ANNA.key)
BEN = Run("20270115T081000Z-rollback-3", "ben@office:/srv/iop", "ben key")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the hold on a host's folder is."""
    return path_of(Path("/srv/iop"), tmp_path)


def test_another_checkout_is_refused_and_told_who_holds_it(path: Path) -> None:
    """Who, since when, until when, and what to do; what the holder had is as before."""
    assert take(path, ANNA, 1500, clock=lambda: NOW) is None
    kept = path.read_text()

    with pytest.raises(ReleaseError) as refused:
        take(path, BEN, 1500, clock=lambda: NOW + 300)

    told = str(refused.value)
    assert "anna@laptop:/home/anna/iop is at work on this host (run 20270115T080000Z-dev-runtime-7, since 2027-" in told
    assert "(20 min from now)" in told
    assert "nothing was changed" in told
    assert "-e take_over=true" in told
    assert path.read_text() == kept


def test_its_run_renews_it_and_lets_go_of_it(path: Path) -> None:
    """A renewed hold lasts from then on and keeps its beginning; after the end anyone may have the host."""
    take(path, ANNA, 1500, clock=lambda: NOW)
    assert take(path, ANNA, 1500, clock=lambda: NOW + 1400) is None
    found = json.loads(path.read_text())
    assert (found["since"], found["until"]) == (NOW, NOW + 2900)

    assert let_go(path, BEN.run) is False
    with pytest.raises(ReleaseError):
        take(path, BEN, 1500, clock=lambda: NOW + 1600)
    assert let_go(path, ANNA.run) is True
    assert not path.exists()
    assert let_go(path, ANNA.run) is False
    assert take(path, BEN, 1500, clock=lambda: NOW + 1600) is None


def test_the_same_checkout_goes_on_after_a_run_that_was_killed(path: Path) -> None:
    """At once; what the dead run would still do is refused to it, and its late end changes nothing."""
    take(path, ANNA, 1500, clock=lambda: NOW)
    before = take(path, AGAIN, 1500, clock=lambda: NOW + 60)
    assert before is not None
    assert before["run"] == ANNA.run
    assert let_go(path, ANNA.run) is False
    assert json.loads(path.read_text())["run"] == AGAIN.run


def test_whoever_takes_over_a_dead_run_fences_it_off(path: Path) -> None:
    """When its time is over, or when asked to; the run that was thought dead is refused from then on."""
    take(path, ANNA, 1500, clock=lambda: NOW)
    taken = take(path, BEN, 1500, over=True, clock=lambda: NOW + 1)
    assert taken is not None
    assert taken["holder"] == ANNA.holder
    with pytest.raises(ReleaseError, match="ben@office"):
        take(path, ANNA, 1500, clock=lambda: NOW + 2)
    assert take(path, ANNA, 1500, clock=lambda: NOW + 1502) is not None


def test_a_hold_of_another_clock_locks_nobody_out(path: Path) -> None:
    """One that ends days from now was written before the clock was set right."""
    take(path, ANNA, 1500, clock=lambda: NOW + 86400)
    assert take(path, BEN, 1500, clock=lambda: NOW) is not None


@pytest.mark.parametrize("text", ["", "{}", '{"run": "x"', "[]", '{"run": 1, "holder": 2, "key": 3}'])
def test_half_a_hold_holds_nothing(path: Path, text: str) -> None:
    """As a power cut may leave it."""
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert take(path, BEN, 1500, clock=lambda: NOW) is None


def test_each_folder_of_a_host_is_held_for_itself(tmp_path: Path) -> None:
    """Two installations of one account do not know each other; the file is the owner's alone."""
    one, other = path_of(Path("/srv/a"), tmp_path), path_of(Path("/srv/b"), tmp_path)
    take(one, ANNA, 1500, clock=lambda: NOW)
    take(other, BEN, 1500, clock=lambda: NOW)
    assert one.stat().st_mode & 0o777 == 0o600


def test_of_many_at_once_one_has_it(path: Path) -> None:
    """Runs that begin in the same moment, while others let go: never are two told that they have it."""
    inside: list[str] = []
    most: list[int] = []
    guard = threading.Lock()

    def run(number: int) -> None:
        mine = Run(f"run {number}", f"host {number}", f"key {number}")
        for _ in range(40):
            try:
                take(path, mine, 1500)
            except ReleaseError:
                continue
            with guard:
                inside.append(mine.run)
                most.append(len(inside))
            with guard:
                inside.remove(mine.run)
            let_go(path, mine.run)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
