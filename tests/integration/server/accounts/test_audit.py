"""The audit log: complete, in order, and what is changed or removed shows."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.integration.server.accounts.house import HERE, House
from tests.integration.server.command import told

from scope_server.accounts.audit import Act

HOSTILE = "a\x1b[2J\n', 1); DROP TABLE store.audit; --\u2028é"


@pytest.fixture
async def noted(house: House) -> House:
    """A house with a log of several entries."""
    for number in range(5):
        await house.audit.note(Act("ada@example.org", HERE, "task.start", f"task {number}", {"probe": "syscalls"}))
    return house


async def test_an_untouched_log_is_right(noted: House) -> None:
    """Whatever is written into it."""
    await noted.audit.note(Act(HOSTILE, HOSTILE, "task.start", HOSTILE, {HOSTILE: [1e300, None, HOSTILE], "b": 1.0}))
    verdict = await noted.audit.verify()
    assert (verdict.entries, verdict.fault) == (6, "")


async def test_entries_of_many_at_once_are_in_one_order(noted: House) -> None:
    """Numbers have no gaps, and the chain is whole."""
    await asyncio.gather(*(noted.audit.note(Act(f"{who}", HERE, "node.remove", "", {})) for who in range(100)))
    verdict = await noted.audit.verify()
    assert (verdict.entries, verdict.fault) == (105, "")
    assert len(await noted.acts()) == 105


@pytest.mark.parametrize(
    ("change", "entries", "fault"),
    [
        ("UPDATE store.audit SET actor = 'eve' WHERE number = 3", 2, "entry 3 was changed"),
        ("UPDATE store.audit SET detail = '{}' WHERE number = 3", 2, "entry 3 was changed"),
        ("UPDATE store.audit SET time = time + interval '1 us' WHERE number = 3", 2, "entry 3 was changed"),
        ("UPDATE store.audit SET digest = 'x' WHERE number = 3", 2, "entry 3 was changed"),
        ("DELETE FROM store.audit WHERE number = 3", 2, "entry 3 is missing"),
        ("DELETE FROM store.audit WHERE number = 1", 0, "entry 1 is missing"),
        ("DELETE FROM store.audit WHERE number = 5", 4, "entries after 4 are missing"),
        ("DELETE FROM store.audit", 0, "entries after 0 are missing"),
        (
            "UPDATE store.audit a SET object = b.object FROM store.audit b WHERE a.number + b.number = 7 "
            "AND a.number IN (3, 4)",
            2,
            "entry 3 was changed",
        ),
    ],
    ids=["actor", "detail", "time", "digest", "removed", "first", "last", "all", "exchanged"],
)
async def test_what_was_done_to_the_log_shows(
    noted: House, database: str, change: Any, entries: int, fault: str
) -> None:
    """The first entry that is wrong is named."""
    with psycopg.connect(database) as connection:
        connection.execute(change)
    verdict = await noted.audit.verify()
    assert (verdict.entries, verdict.fault) == (entries, fault)


async def test_the_command_says_what_is_wrong(start_server: Callable[..., Any]) -> None:
    """Also that the server's settings of what is kept are in the log; a log that was changed is a failure."""
    async with start_server(keep_days=17) as server:
        for number in range(3):
            assert (await server.ask("POST", "annotations", json={"text": f"said {number}"}))[0] == 201
        entries = (await server.get("audit"))["entries"]
        (kept,) = [entry for entry in entries if entry["act"] == "retention.change"]
        assert kept["actor"] == "server"
        assert kept["detail"] == {"from": None, "to": {"keep_days": 17, "keep_bytes": None, "free_floor": None}}
        status, out, said = await told(server, "admin", "audit", "verify")
        assert (status, said) == (0, "")
        assert out.startswith(f"all {len(entries)} entries are right; the last has the digest ")
        server.query("DELETE FROM store.audit WHERE number = 2")
        assert await told(server, "admin", "audit", "verify") == (
            1,
            "",
            "scope: entry 2 is missing; the 1 entries before it are right\n",
        )
