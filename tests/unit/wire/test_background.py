"""Background work: if it ends early, the block that started it fails."""

import asyncio

import pytest

from scope_wire.background import EndedUnexpectedly, TaskGroup, background


async def _forever() -> None:
    await asyncio.Event().wait()


async def test_work_is_cancelled_when_the_block_ends() -> None:
    """The block ends without an error, though its work would run for ever."""
    async with asyncio.timeout(30):
        async with background(work=_forever()):
            await asyncio.sleep(0)


async def test_a_failure_ends_the_block() -> None:
    """The block raises the failure of its work."""

    async def fails() -> None:
        raise KeyError("lost")

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(30), background(steady=_forever(), broken=fails()):
            await _forever()
    assert raised.group_contains(KeyError)


async def test_a_quiet_end_ends_the_block_too() -> None:
    """Work that returns is an error too: background work must run for ever."""

    async def returns() -> None:
        return

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(30), background(done=returns()):
            await _forever()
    assert raised.group_contains(EndedUnexpectedly, match="done ended")


async def test_a_group_that_is_cancelled_while_a_task_fails_ends_as_cancelled() -> None:
    """Who goes on after the errors of a group would else never end."""

    async def fails_when_it_ends() -> None:
        try:
            await _forever()
        finally:
            raise KeyError("lost")

    async def goes_on() -> None:
        while True:
            try:
                async with TaskGroup() as group:
                    group.create_task(fails_when_it_ends())
            except* KeyError:
                pass

    going = asyncio.create_task(goes_on())
    await asyncio.sleep(0.01)
    going.cancel()
    await asyncio.wait({going}, timeout=10)
    assert going.cancelled()


async def test_a_group_whose_task_fails_raises_the_failure() -> None:
    """As a plain one does."""

    async def fails() -> None:
        raise KeyError("lost")

    with pytest.raises(ExceptionGroup) as raised:
        async with TaskGroup() as group:
            group.create_task(fails())
            await _forever()
    assert raised.group_contains(KeyError)


@pytest.mark.parametrize("others", [0, 1])
async def test_a_failure_is_no_cancellation(others: int) -> None:
    """Whoever catches the error of a task, for which the group only waited, goes on, again and again."""

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError

    for _ in range(3):
        with pytest.raises(ExceptionGroup):
            async with TaskGroup() as group:
                group.create_task(fails())
                for _ in range(others):
                    group.create_task(asyncio.sleep(60))
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0
