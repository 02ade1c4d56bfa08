"""The entrance lets a bounded number of agents begin, and spreads the others over time."""

import contextlib
import time
from contextlib import ExitStack

import pytest

from scope_server.errors import ComeAgain
from scope_server.session.entrance import Entrance


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock; a test sets its only element."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


@pytest.mark.usefixtures("now")
def test_the_others_come_one_after_the_other() -> None:
    """Beyond the limit, each agent is told a later time than the one before; one that leaves makes room."""
    entrance = Entrance(most=3)
    with ExitStack() as inside:
        turns = [inside.enter_context(entrance.turn()) for _ in range(3)]
        waits = [_wait(entrance) for _ in range(101)]
        assert waits == sorted(set(waits))
        assert waits[0] >= 0.25
        assert entrance.sent_away == 101
        turns[0].over()
        turns[0].over()  # counts once
        with entrance.turn(), pytest.raises(ComeAgain):
            inside.enter_context(entrance.turn())
        inside.enter_context(entrance.turn())


def test_the_pace_is_the_servers(now: list[float]) -> None:
    """If sessions begin slowly while others wait, the others are told to come at longer intervals; never beyond a
    minute."""
    entrance = Entrance(most=1)
    apart: list[float] = []
    for _ in range(200):
        with entrance.turn():
            apart.append(_wait(entrance) - _wait(entrance))
            now[0] += 0.05
    fast, slow = -apart[0], -apart[-1]
    assert fast == pytest.approx(0.005)
    assert slow == pytest.approx(0.05, rel=0.1)
    with entrance.turn():
        assert max(_wait(entrance) for _ in range(10_000)) == 60.0


def test_a_failed_beginning_frees_its_place() -> None:
    """An agent that is refused or breaks off leaves its place to others."""
    entrance = Entrance(most=1)
    for _ in range(7):
        with contextlib.suppress(ValueError), entrance.turn():
            raise ValueError
    assert entrance.sent_away == 0


def _wait(entrance: Entrance) -> float:
    with pytest.raises(ComeAgain) as sent, entrance.turn():
        pass
    return sent.value.in_s
