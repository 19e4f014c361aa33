"""Cases that take slots share one worker, whatever the installed pytest does with xdist's groups."""

import pytest

from smoke.scheduling import GROUP, group_of


@pytest.mark.parametrize(
    "nodeid",
    ["smoke/test_slots.py::test_capacity[chat]", "smoke/test_slots_sdk.py::test_official_sdk", "test_slots.py::test_x"],
)
def test_cases_that_take_slots_are_one_group(nodeid: str) -> None:
    """From whatever folder pytest was started."""
    assert group_of(nodeid) == GROUP


def test_a_case_that_only_reads_is_its_own_group() -> None:
    """It may run on any worker."""
    assert group_of("smoke/test_views.py::test_models") == "smoke/test_views.py::test_models"
