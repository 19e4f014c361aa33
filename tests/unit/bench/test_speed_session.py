"""How a run bears with a machine that others use, too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.speed import session as module
from tests.bench.speed.rig import Running
from tests.bench.speed.session import Session


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Cores that others use, one number per look, and no waiting."""
    looks: list[float] = []

    class Watch:
        def others(self) -> float:
            return looks.pop(0)

    monkeypatch.setattr(module, "Watch", Watch)
    monkeypatch.setattr(module, "await_calm", lambda wait: None)
    return looks


def _session(tmp_path: Path, said: list[str]) -> Session:
    return Session(None, tmp_path / "rows.jsonl", said.append)  # type: ignore[arg-type]


def _tries(*facts: int) -> Iterator[int]:
    yield from facts


def test_a_disturbed_measure_is_taken_once_more(tmp_path: Path, others: list[float]) -> None:
    """Quiet: the first counts. Disturbed: the second does, however it went, with what others took then."""
    run = _session(tmp_path, [])
    others[:] = [0.1, 1.2, 0.2, 1.3, 1.4]
    tries = _tries(1, 2, 3, 4, 5)
    found = [run.quietly(lambda: {"number": next(tries)}) for _ in range(3)]
    assert [(one["number"], one["others_cores"]) for one in found] == [(1, 0.1), (3, 0.2), (5, 1.4)]


def test_without_patience_a_measure_is_taken_as_it_comes(tmp_path: Path, others: list[float]) -> None:
    """On a machine that is never quiet a run ends all the same: no second try once its patience is gone."""
    run = _session(tmp_path, [])
    run.patience = 0.0
    others[:] = [1.2]
    assert run.quietly(lambda: {"number": 1}) == {"number": 1, "others_cores": 1.2}


def test_a_row_is_written_at_once_and_told(tmp_path: Path) -> None:
    """What was measured is on disk before the next measure begins; a noisy one is told as such."""
    said: list[str] = []
    run = _session(tmp_path, said)
    run.record("rps", Running("iop", 1, []), 2, "17 requests/s", others_cores=0.9)
    row = json.loads((tmp_path / "rows.jsonl").read_text(encoding="utf-8"))
    assert (row["test"], row["peer"], row["round"], row["others_cores"]) == ("rps", "iop", 2, 0.9)
    assert said[0].split() == ["iop", "rps", "#3", "17", "requests/s", "(noisy:", "others", "use", "0.9", "cores)"]
