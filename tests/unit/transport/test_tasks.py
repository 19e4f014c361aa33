"""Background tasks with one owner."""

import asyncio

import pytest

from iop.transport.tasks import TaskSet


async def test_close_ends_what_still_runs() -> None:
    """Closing cancels every task and waits until it has really ended."""
    ended: list[str] = []
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    tasks = TaskSet()
    tasks.start(work(), name="work")
    await started.wait()
    await tasks.close()
    await tasks.close()

    assert ended == ["cleaned up"]
    assert len(tasks) == 0


async def test_close_ends_when_a_task_ended_in_the_same_turn_of_the_loop() -> None:
    """Who is woken by the last act of a task closes before it is known as done; Python 3.12 turned that into a hang."""
    over = asyncio.Event()

    async def work() -> None:
        over.set()

    tasks = TaskSet()
    task = tasks.start(work(), name="work")
    await over.wait()
    assert (task.done(), len(tasks)) == (True, 1)
    await tasks.close()

    assert len(tasks) == 0


async def test_a_failure_is_logged_once_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """A task that fails does not vanish silently (Field case B47)."""

    async def fail() -> None:
        raise ValueError("broken pipe of thought")

    tasks = TaskSet()
    tasks.start(fail(), name="thinker")
    await tasks.drained()
    await asyncio.sleep(0)

    assert [r.getMessage() for r in caplog.records] == ["background task thinker failed"]


async def test_drained_waits_for_all_without_ending_any() -> None:
    """`drained` lets tasks finish, also those started meanwhile."""
    done: list[int] = []
    tasks = TaskSet()

    async def work(left: int) -> None:
        await asyncio.sleep(0)
        done.append(left)
        if left:
            tasks.start(work(left - 1), name=f"work {left}")

    tasks.start(work(2), name="work")
    await tasks.drained()

    assert done == [2, 1, 0]
