"""Fixtures: accounts over a test's database, among them ada's."""

from collections.abc import AsyncIterator

import pytest
from tests.integration.server.accounts.house import ADA, PASSWORD, House

from scope_server.accounts.caller import Role
from scope_server.store.reading.database import Database
from scope_server.store.schema.tables import Tables


@pytest.fixture
async def house(database: str) -> AsyncIterator[House]:
    """Accounts, among them ada's."""
    async with Database(database, 8, 20) as opened:
        await opened.prepare(Tables([]))
        made = House(opened)
        await made.users.add(ADA, PASSWORD, Role.OPERATOR)
        yield made
