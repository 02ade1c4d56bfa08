"""The entrance lets a bounded number of agents begin, has others wait, and spreads the rest over time."""

import asyncio
import contextlib
from contextlib import AsyncExitStack

import pytest

from scope_server.errors import ComeAgain
from scope_server.session.entrance import Entrance, Turn


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock; a test sets its only element."""
    clock = [1000.0]
    monkeypatch.setattr("scope_server.session.entrance.time", _Clock(clock))
    return clock


class _Clock:
    def __init__(self, clock: list[float]) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock[0]


@pytest.mark.usefixtures("now")
async def test_the_others_come_one_after_the_other() -> None:
    """If the line is full, each agent is told a later time than the one before; one that leaves makes room."""
    entrance = Entrance(most=3, line=0)
    async with AsyncExitStack() as inside:
        turns = [await inside.enter_async_context(entrance.turn()) for _ in range(3)]
        waits = [await _wait(entrance) for _ in range(101)]
        assert waits == sorted(set(waits))
        assert waits[0] >= 0.25
        assert entrance.sent_away == 101
        turns[0].over()
        turns[0].over()  # counts once
        async with entrance.turn():
            assert await _wait(entrance) > waits[-1]
        await inside.enter_async_context(entrance.turn())


async def test_a_line_is_served_in_order() -> None:
    """Agents in line begin in the order in which they came; one that gives up leaves the line."""
    entrance, begun = Entrance(most=1, line=3), list[int]()

    async def begin(number: int) -> None:
        async with entrance.turn():
            begun.append(number)

    async with entrance.turn():
        waiting = []
        for number in range(3):
            waiting.append(asyncio.create_task(begin(number)))
            await asyncio.sleep(0)
        await _wait(entrance)
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)
        waiting.append(asyncio.create_task(begin(3)))
        await asyncio.sleep(0)
        assert begun == []
    await asyncio.gather(*waiting, return_exceptions=True)
    assert begun == [0, 2, 3]


async def test_the_pace_is_the_servers(now: list[float]) -> None:
    """If turns are over slowly while agents wait, the others are told to come at longer intervals, within a minute."""
    entrance, turns = Entrance(most=1, line=1), list[Turn]()

    async def hold() -> None:
        async with entrance.turn() as turn:
            turns.append(turn)
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        holding = [group.create_task(hold()), group.create_task(hold())]
        apart = 0.0
        for number in range(300):
            while len(turns) <= number:
                await asyncio.sleep(0)
            first, second = await _wait(entrance), await _wait(entrance)
            apart = second - first
            now[0] += 0.05
            turns[number].over()
            holding.append(group.create_task(hold()))
            await asyncio.sleep(0)
        assert apart == pytest.approx(0.05, rel=0.1)
        assert max([await _wait(entrance) for _ in range(3000)]) <= 60.0
        for each in holding:
            each.cancel()


async def test_a_failed_beginning_frees_its_place() -> None:
    """An agent that is refused or breaks off leaves its place to others."""
    entrance = Entrance(most=1, line=0)
    for _ in range(7):
        with contextlib.suppress(ValueError):
            async with entrance.turn():
                raise ValueError
    assert entrance.sent_away == 0


async def _wait(entrance: Entrance) -> float:
    with pytest.raises(ComeAgain) as sent:
        async with entrance.turn():
            pass
    return sent.value.in_s
