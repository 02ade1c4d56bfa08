"""Fixtures: a server for several questions."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.integration.server.running import Server


@pytest.fixture
async def server(start_server: Callable[..., Any]) -> AsyncIterator[Server]:
    """A server with a database without rows."""
    async with start_server() as started:
        yield started
