"""Documents and views: positions fall back to the parent, views never raise."""

from iop.config.document import Document, View, dotted

DOCUMENT = Document(
    "f.yaml",
    {"a": {"b": [1, "x"]}},
    keys={("a",): (2, 1), ("a", "b"): (3, 3)},
    values={(): (1, 1), ("a",): (3, 3), ("a", "b"): (3, 6), ("a", "b", 1): (4, 5)},
)


def test_paths_are_written_as_people_do() -> None:
    """Keys are joined by dots, places in lists stand in brackets."""
    assert dotted(("nodes", 0, "providers", 1, "capacity")) == "nodes[0].providers[1].capacity"


def test_positions_fall_back_to_the_nearest_parent() -> None:
    """A missing key is reported where its parent stands."""
    assert DOCUMENT.at(("a", "b", 1)) == (4, 5)
    assert DOCUMENT.at(("a", "missing")) == (2, 1)
    assert DOCUMENT.at(("missing",)) == (1, 1)
    assert DOCUMENT.at(("a", "b"), key=True) == (3, 3)


def test_views_read_what_is_there_and_nothing_else() -> None:
    """Missing or differently shaped data is None or empty."""
    root = View(DOCUMENT, (), DOCUMENT.data)
    assert [item.data for item in root.child("a").items("b")] == [1, "x"]
    assert root.child("a").items("c") == root.items("a") == []
    assert root.child("a").child("b").child("c").data is None
    assert root.text("a") is None
    assert root.child("a").pairs("b") == []


def test_a_bool_is_no_integer() -> None:
    """True is not 1 in a config."""
    view = View(DOCUMENT, (), {"yes": True, "one": 1})
    assert (view.integer("yes"), view.integer("one")) == (None, 1)


def test_views_make_findings_at_their_place() -> None:
    """A finding of a view carries the view's path and position."""
    finding = View(DOCUMENT, ("a", "b"), None).warning("c", "m", "h", key=True)
    assert (finding.severity, finding.path, finding.line, finding.column) == ("warning", "a.b", 3, 3)
