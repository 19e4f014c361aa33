"""Who was removed, and until when."""

from iop.edge.removals import Removals


def test_each_removal_has_its_own_time():
    """The timer of an earlier refresh does not end what a later one removed; each id is told once."""
    removals = Removals()
    removals.note(["a", "b"], ["b"], until=10.0)
    removals.note(["b"], [], until=12.0)

    assert removals.due(9.9) == []
    assert removals.due(10.0) == ["a"]
    assert removals.due(12.0) == ["b"]
    assert removals.due(99.0) == []


def test_what_came_back_starts_anew():
    """An id that is declared again is not cut, and a second removal gets its whole time."""
    removals = Removals()
    removals.note(["a"], [], until=10.0)
    removals.note([], ["a"], until=11.0)
    assert removals.due(10.0) == []

    removals.note(["a"], [], until=15.0)
    assert removals.due(11.0) == []
    assert removals.due(15.0) == ["a"]
