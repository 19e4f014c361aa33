"""Which provider made which response."""

from iop.edge.owners import LONGEST_ID, ResponseOwners


def test_the_maker_of_a_response_is_known_and_nobody_else_is() -> None:
    """An id that was noted gives its provider; another id and none give nothing."""
    owners = ResponseOwners()
    owners.note("resp_1", "a")
    owners.note("resp_2", "b")
    assert [owners.of(name) for name in ("resp_1", "resp_2", "resp_3", None)] == ["a", "b", None, None]


def test_the_oldest_are_forgotten_first_and_a_repeat_is_new() -> None:
    """With room for two, the one that was noted longest ago goes; noting again makes it the newest."""
    owners = ResponseOwners(limit=2)
    for name in ("resp_1", "resp_2", "resp_1", "resp_3"):
        owners.note(name, f"maker of {name}")
    assert [owners.of(f"resp_{n}") for n in (1, 2, 3)] == ["maker of resp_1", None, "maker of resp_3"]


def test_an_id_that_is_no_id_is_not_kept() -> None:
    """What is longer than any engine makes them costs no memory."""
    owners = ResponseOwners()
    owners.note("x" * (LONGEST_ID + 1), "a")
    owners.note("x" * LONGEST_ID, "a")
    assert (owners.of("x" * (LONGEST_ID + 1)), owners.of("x" * LONGEST_ID)) == (None, "a")
