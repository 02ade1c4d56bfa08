"""Failed tries are repeated; the pause doubles each time, up to a limit."""

import asyncio
import random
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.fleet import make_member

from scope_agentd import task
from scope_agentd.errors import SessionEnded
from scope_agentd.identity.membership import Membership
from scope_agentd.run import Surroundings
from scope_agentd.session import link
from scope_agentd.session.link import Link
from scope_agentd.starts import Starts
from scope_agentd.task import Task
from scope_agentd.wanted import Wanted
from scope_proto.scope.v1 import task_pb2
from scope_server.identity.authority import Authority

FIRST_S, LAST_S = 0.01, 0.16
TRIES = 12  # without a limit, the last pause would be 20 s


class Tries:
    """A function that always fails, and keeps the times of its calls."""

    def __init__(self, error: Exception) -> None:
        self._error, self.times = error, list[float]()

    def __call__(self, *_: Any) -> NoReturn:
        self.times.append(time.monotonic())
        raise self._error


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda *_: 1.0)
    for module in (task, link):
        monkeypatch.setattr(module, "FIRST_PAUSE_S", FIRST_S)
        monkeypatch.setattr(module, "LAST_PAUSE_S", LAST_S)


async def pauses_of(trying: Coroutine[Any, Any, None], tries: Tries) -> list[float]:
    """Waits for TRIES tries; returns the seconds between them."""
    running = asyncio.create_task(trying)
    async with asyncio.timeout(15):
        while len(tries.times) < TRIES:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return [later - earlier for earlier, later in zip(tries.times, tries.times[1:], strict=False)]


def doubled(first_s: float) -> list[float]:
    """The shortest allowed length of each pause, less 1 % for the clock's resolution."""
    return [0.99 * min(first_s * 2**number, LAST_S) for number in range(TRIES - 1)]


def failing_task(monkeypatch: pytest.MonkeyPatch) -> tuple[Task, Tries]:
    """A task whose start always fails."""
    tries = Tries(OSError(24, "Too many open files"))
    monkeypatch.setattr(task, "check_definition", tries)
    wanted = Wanted("6f1c0d7e-0000-4000-8000-000000000001", task_pb2.ORIGIN_SERVER, task_pb2.Definition())
    nothing: Any = None  # a run that never starts uses none of these
    surroundings = Surroundings(*[nothing] * 5, starts=Starts(), memory=nothing, excluded=nothing, changed=lambda: None)
    return Task(wanted, surroundings, lambda: None), tries


def failing_link(monkeypatch: pytest.MonkeyPatch, state: Path) -> tuple[Link, Tries]:
    """A link whose connection can never be made."""
    tries = Tries(SessionEnded("made up"))
    monkeypatch.setattr(Link, "_connection", tries)
    nothing: Any = None  # a connection that is never made uses none of these
    make_member(state, Authority(state / "authority"), "127.0.0.1:1")
    return Link(Membership(state), None, nothing, nothing), tries


async def test_a_task_that_never_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that never starts is tried again, with doubled pauses, and stays wanted."""
    one, tries = failing_task(monkeypatch)
    pauses = await pauses_of(one.pursue(), tries)
    assert all(pause > least for pause, least in zip(pauses, doubled(FIRST_S), strict=False))
    assert one.unwanted == task_pb2.TASK_END_UNSPECIFIED


async def test_a_server_that_is_never_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A failed connection is tried again, with doubled pauses."""
    one, tries = failing_link(monkeypatch, tmp_path)
    pauses = await pauses_of(one.run(), tries)
    assert all(pause > least for pause, least in zip(pauses, doubled(2 * FIRST_S), strict=False))


async def test_what_went_well_for_a_while_begins_with_the_first_pause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A try that went well resets the pause. Here every try counts as one: doubled pauses would exceed the timeout."""
    monkeypatch.setattr(task, "_RAN_WELL_S", 0.0)
    monkeypatch.setattr(link, "_LASTED_S", 0.0)
    for module in (task, link):
        monkeypatch.setattr(module, "LAST_PAUSE_S", 1000.0)
    one, tries = failing_task(monkeypatch)
    await pauses_of(one.pursue(), tries)
    other, tries = failing_link(monkeypatch, tmp_path)
    await pauses_of(other.run(), tries)
