"""The loop that reconciles sessions ends with the server."""

import asyncio
from typing import Any

import pytest

from scope_server.session.reconcile import Reconciler


class Idle:
    """In place of the database, the changes and the sessions: nothing has changed, and nobody is connected."""

    def __init__(self) -> None:
        self.woken, self.asked = asyncio.Event(), 0

    async def since_last(self) -> frozenset[int]:
        self.asked += 1
        return frozenset()

    def all(self) -> list[Any]:
        return []


async def test_a_change_as_the_server_ends_does_not_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that comes in the turn of the loop in which the server ends does not undo the cancellation."""
    monkeypatch.setattr("scope_server.session.reconcile._BETWEEN_S", 0.0)
    monkeypatch.setattr("scope_server.session.reconcile.OVERDUE_EVERY_S", float("inf"))
    idle: Any = Idle()
    reconciling = asyncio.create_task(Reconciler(idle, idle, idle, idle, idle, restored=idle).run())
    while not idle.asked:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)  # until it waits
    idle.woken.set()
    reconciling.cancel()
    await asyncio.wait([reconciling], timeout=1)
    cancelled = reconciling.cancelled()
    reconciling.cancel()
    assert cancelled
