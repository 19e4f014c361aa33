"""Which cases share a worker: all that take slots, told by the name of their file (`test_slots*.py`).

xdist's own groups are not enough: with pytest 9.2, xdist 3.8 loses the group of every test without a word (it writes
it into a private field of the item that pytest no longer has), and bursts would run side by side.
"""

from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]  # xdist has no types

GROUP = "slots"


class SlotScheduling(LoadGroupScheduling):  # type: ignore[misc]  # as above
    """`--dist loadgroup` with one group for the cases that take slots; the others go one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the group of a test: one for all cases that take slots, else the test itself."""
    name = nodeid.split("::", 1)[0].rsplit("/", 1)[-1]
    return GROUP if name.startswith("test_slots") else nodeid
