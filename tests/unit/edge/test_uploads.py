"""Bodies under way when the Edge stops."""

import asyncio

import pytest

from iop.domain.errors import Unavailable
from iop.edge.uploads import Uploads


async def _read(uploads: Uploads, whole: asyncio.Event) -> str:
    async with uploads.reading():
        await whole.wait()
    return "whole"


async def test_an_upload_that_is_not_whole_soon_is_refused() -> None:
    """At the stop a body gets the grace; one that hangs is told shutting_down."""
    uploads = Uploads(grace=0.01)
    hanging = asyncio.ensure_future(_read(uploads, asyncio.Event()))
    await asyncio.sleep(0)
    uploads.end()

    with pytest.raises(Unavailable) as told:
        await hanging
    assert told.value.code == "shutting_down"


async def test_a_body_that_comes_in_time_is_read() -> None:
    """Within the grace nothing is cut, also for one that begins after the stop."""
    uploads, whole = Uploads(grace=60), asyncio.Event()
    first = asyncio.ensure_future(_read(uploads, whole))
    await asyncio.sleep(0)
    uploads.end()
    second = asyncio.ensure_future(_read(uploads, whole))
    await asyncio.sleep(0)
    whole.set()

    assert [await first, await second] == ["whole", "whole"]


async def test_without_a_stop_there_is_no_limit_and_other_timeouts_are_not_ours() -> None:
    """A TimeoutError from inside stays what it is."""
    with pytest.raises(TimeoutError):
        async with Uploads(grace=0).reading():
            raise TimeoutError
