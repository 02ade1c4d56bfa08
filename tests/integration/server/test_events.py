"""GET /events: pages, filters, and what cannot be asked."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.server.conftest import batch, rows

from scope_cli.errors import CommandError

StartServer = Callable[..., Any]


async def every(server: Any, **query: Any) -> list[int]:
    """`arg0` of all rows, page by page."""
    found, cursor = [], None
    while True:
        page = await server.get("events", "syscall", **query, cursor=cursor)
        found += [event["arg0"] for event in page["events"]]
        cursor = page["next"]
        if not cursor:
            return found


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_are_complete_and_do_not_overlap(start_server: StartServer, task_id: str, order: str) -> None:
    """Following `next` gives every row once, in order, however the batches lie."""
    batches = [batch(rows(101, 101 * n), task_id, n + 1) for n in range(23)]
    async with start_server() as server:
        await server.send(*reversed(batches))
        found = await every(server, limit=97, order=order)
    expected = list(range(101 * 23))
    assert found == (expected if order == "asc" else expected[::-1])


async def test_filters_and_times_narrow(start_server: StartServer, task_id: str) -> None:
    """Each kind of filter gives the rows that meet it, alone and together."""
    async with start_server() as server:
        await server.send(batch(rows(101), task_id, 1), batch(rows(103, 101, pid=815), str(uuid.uuid4()), 1))
        assert len(await every(server, pid=815)) == 103
        assert await every(server, pid=1) == []
        assert sorted(await every(server, comm="two\\xff", pid=4711)) == list(range(1, 101, 2))
        assert await every(server, comm="nobody") == []
        assert sorted(await every(server, **{"arg0.gte": 5, "arg0.lte": 7})) == [5, 6, 7]
        assert sorted(await every(server, **{"ret.gte": -2, "pid": 4711})) == [0, 1, 2]
        assert len(await every(server, **{"name.ne": "read"})) == 0
        assert len(await every(server, machine="stand-in")) == 204
        first = (await server.get("events", "syscall", **{"arg0": 50}))["events"][0]["time"]
        assert min(await every(server, since=first)) == 50
        assert max(await every(server, until=first)) == 49


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("nonsense", {}, "there is no stream 'nonsense'; there are: "),
        ("syscall", {"nonsense": 1}, "has no column 'nonsense'; it has: pid"),
        ("syscall", {"pid": "x"}, "pid: 'x' is not a whole number"),
        ("syscall", {"pid": 1 << 70}, "has more than 64 bits"),
        ("syscall", {"pid.gte": 1}, "pid: only equality"),
        ("syscall", {"arg0.near": 1}, "'near' is not one of"),
        ("syscall", {"limit": 0}, "limit: '0' is not from 1 to 1000"),
        ("syscall", {"limit": 10**9}, "is not from 1 to 1000"),
        ("syscall", {"order": "up"}, "order: 'up' is neither"),
        ("syscall", {"since": "now"}, "since: 'now' is no time"),
        ("syscall", {"cursor": "AAAA"}, "cursor: this is none"),
        ("syscall", {"machine": "none"}, "machine: none has the hostname or id 'none'"),
        ("syscall", {"arg0; DROP TABLE": 1}, "has no column 'arg0; DROP TABLE'"),
        ("syscall_summary", {"latency": 1}, "a column of bigint[] cannot be filtered by"),
    ],
)
async def test_what_cannot_be_asked_is_told(
    start_server: StartServer, path: str, query: dict[str, Any], said: str
) -> None:
    """A request that makes no sense is refused; the answer names what is wrong."""
    async with start_server() as server:
        with pytest.raises(CommandError) as refused:
            await server.get("events", path, **query)
    assert said in str(refused.value)
