"""The reconciler ends with its session."""

import asyncio
from typing import Any

import pytest

from scope_server.ingest.backlog import Backlog
from scope_server.machine import Machine
from scope_server.session.hello import Caller
from scope_server.session.reconcile import Reconciler
from scope_server.session.session import Session

CALLER = Caller("m", "i", b"life", "host", "6.18", "x86_64", 2, 1 << 30, "0.1.0", None, 0, 0)


class Idle:
    """In place of database, reports and comparison: nothing is wanted, stored or lacking."""

    async def nothing(self, *_: Any) -> list[Any]:
        return []

    fetch = run = caught_up = compare = tell = nothing


class Told:
    """In place of the sessions."""

    def tell(self) -> None:
        pass


async def test_a_report_as_the_session_ends_does_not_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that comes in the turn of the loop in which the session is cancelled does not undo the cancellation."""
    monkeypatch.setattr("scope_server.session.reconcile._BETWEEN_S", 0.0)
    idle: Any = Idle()
    told: Any = Told()
    session = Session(Machine(1, "m", "i", 0), idle, CALLER)
    session.reported.set()
    following = asyncio.create_task(Reconciler(idle, idle, Backlog(1, 1), told, idle).follow(session))
    while not session.takes_records:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)  # until it waits
    session.nudged.set()
    following.cancel()
    await asyncio.wait([following], timeout=1)
    cancelled = following.cancelled()
    following.cancel()
    assert cancelled
