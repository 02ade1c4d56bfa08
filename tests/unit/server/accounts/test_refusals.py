"""Tokens that are refused: how many an address may show."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scope_server.accounts import refusals
from scope_server.accounts.refusals import Refusals
from scope_server.errors import TooManyRequests
from scope_server.limits import LocalLimits

THERE, ELSEWHERE = "203.0.113.7", "192.0.2.1"


class Database:
    """Knows one token, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.valid = {"ada's"}

    def ask(self, shown: str) -> Callable[[], Awaitable[list[dict[str, Any]]]]:
        """The query about a token."""

        async def query() -> list[dict[str, Any]]:
            self.asked += 1
            return [{"email": "ada@example.org"}] if shown in self.valid else []

        return query


async def test_refused_tokens_cost_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that shows one wrong token after the other is refused before the database is asked, until it may try
    again; other addresses are not, nor is a token there that was valid before."""
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    database, bounds = Database(), Refusals(LocalLimits())

    async def show(shown: str, address: str = THERE) -> int:
        """How many rows there are; -1: the request is refused without a query."""
        try:
            return len(await bounds.bounded(address, shown, database.ask(shown)))
        except TooManyRequests as error:
            assert "tokens that are not valid" in str(error)
            return -1

    assert await show("ada's") == 1
    database.asked = 0
    answers = [await show(f"guess {number}") for number in range(1000)]
    assert database.asked == answers.count(0) == refusals._REFUSED.burst + 1
    assert await show("ada's") == 1
    assert [await show("guess", ELSEWHERE), await show("guess")] == [0, -1]
    database.valid.clear()
    assert [await show("ada's"), await show("ada's")] == [0, -1]
    clock[0] += 2
    assert await show("guess") == 0


async def test_their_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and tokens that strangers make up do not fill it."""
    monkeypatch.setattr(refusals, "_MOST", 100)
    database, bounds = Database(), Refusals(LocalLimits())
    for number in range(300):
        database.valid = {f"{number}"}
        await bounds.bounded(THERE, f"{number}", database.ask(f"{number}"))
    assert len(bounds._valid) == 100
