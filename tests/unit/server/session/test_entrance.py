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
    """If sessions begin slowly while all places are taken, the others are told to come at longer intervals, within
    limits; if there are free places again, at shorter ones."""
    entrance = Entrance(most=1)
    apart: list[float] = []
    for _ in range(200):
        with entrance.turn():
            first, second = _wait(entrance), _wait(entrance)
            apart.append(second - first)
            now[0] += 0.01
    assert apart[0] == pytest.approx(0.002)
    assert apart[-1] == pytest.approx(0.01, rel=0.1)
    with entrance.turn():
        assert max(_wait(entrance) for _ in range(10_000)) <= 15.0
    roomy = Entrance(most=2)
    for _ in range(200):
        with roomy.turn():
            now[0] += 0.01
    with roomy.turn(), roomy.turn():
        first, second = _wait(roomy), _wait(roomy)
    assert second - first == pytest.approx(0.0005, rel=0.1)


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
