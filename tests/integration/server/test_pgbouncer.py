"""A server whose queries go through a real pgbouncer that pools by transaction, with two connections for all."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.server.accounts.house import ADA, PASSWORD, House
from tests.integration.server.api.recorded import WINDOW
from tests.integration.server.pgbouncer import CONNECTIONS, PgBouncer
from tests.integration.server.records import STORED, Line, Run, rows
from tests.integration.server.running import until
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.tables import TABLES, asked
from tests.integration.server.test_app import answers, recorded, uploading

from scope_server.accounts.audit import Act, Audit
from scope_server.accounts.caller import Role
from scope_server.errors import QueryTooSlow, StoreUnavailable
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import Reader

StartServer = Callable[..., Any]


@pytest.fixture
def bouncer(database: str) -> Iterator[PgBouncer]:
    """A pgbouncer before the test's database."""
    with (
        tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder,
        PgBouncer(database, Path(folder)) as one,
    ):
        yield one


@pytest.fixture
def start(bouncer: PgBouncer, database: str, start_server: StartServer) -> StartServer:
    """Runs a server behind the pgbouncer."""
    return lambda **changes: start_server(database=bouncer.conninfo, direct_database=database, **changes)


async def test_agents_and_people_are_served(start: StartServer, bouncer: PgBouncer) -> None:
    """What an agent records is stored, counted and read; a start reaches it; and many ask at the same time."""
    agent = StandInAgent()
    async with start() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        run = await recorded(server, agent)
        batches = [run.batch(number, rows(101, first=101 * number)) for number in range(1, 8)]
        assert await answers(call, run.start(), *batches) == [STORED] * 8

        async def found(path: str, **query: str) -> Any:
            status, answer = await server.ask("GET", path, params={**WINDOW, **query})
            assert status == 200, answer
            return answer

        pages = await asyncio.gather(
            *(found("events/syscall", limit="1000") for _ in range(20)),
            *(found("aggregates/syscall") for _ in range(20)),
        )
        assert {len(page["events"]) for page in pages[:20]} == {707}
        assert {group["values"]["count"] for page in pages[20:] for group in page["groups"]} == {707}
        clients, connections = await asyncio.to_thread(bouncer.clients)
        assert clients > connections
        assert connections <= CONNECTIONS
        await server.stop(str(run.task_id))
        assert (await server.ask("GET", "health"))[0] == 200


async def test_accounts_work(bouncer: PgBouncer, database: str) -> None:
    """Transactions of several statements: an invitation that is used, logins with their entries in the audit log."""
    async with Database(bouncer.conninfo, 4, 20, direct=database) as pooled:
        await pooled.prepare(TABLES)
        house = House(pooled)
        invitation = await house.users.invite(ADA, Role.OPERATOR)
        assert await house.users.register(ADA, PASSWORD, invitation) == ADA
        pairs = await asyncio.gather(*(house.login() for _ in range(3)))
        again = [await house.refresh(pair) for pair in pairs]
        assert all([await house.knows(pair) for pair in again])
        verdict = await house.audit.verify()
        assert (verdict.entries > 0, verdict.fault) == (True, "")


async def test_limits_hold_for_each_transaction(bouncer: PgBouncer, database: str) -> None:
    """Statements and waits for locks end in time; the limits go with the transaction, not with the connection."""
    async with Database(bouncer.conninfo, 4, 1.0, direct=database) as limited:
        await limited.prepare(TABLES)
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            await limited.rows(b"SELECT pg_sleep(60)")
        with pytest.raises(QueryTooSlow, match="takes too long"):
            async with limited.snapshot() as connection:
                await connection.execute("SELECT pg_sleep(60)")
        with psycopg.connect(database) as holder:
            holder.execute("LOCK TABLE store.machines")
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                await limited.fetch("machines")
        async with limited.snapshot() as connection:
            shown = [
                (await (await connection.execute(f"SHOW {name}".encode())).fetchone() or {}).popitem()[1]
                for name in ("statement_timeout", "lock_timeout", "transaction_isolation", "transaction_read_only")
            ]
        assert shown == ["1s", "500ms", "repeatable read", "on"]
        with psycopg.connect(bouncer.conninfo, autocommit=True, prepare_threshold=None) as other:
            assert other.execute("SHOW statement_timeout").fetchone() == ("0",)


async def test_the_same_query_again_and_again(bouncer: PgBouncer, database: str, line: Line) -> None:
    """psycopg prepares nothing that another connection would lack."""
    await line.send(Run().batch(1, rows(13)))
    async with Database(bouncer.conninfo, 8, 20, direct=database) as pooled:
        await pooled.prepare(TABLES)
        reader, audit = Reader(pooled), Audit(pooled)
        for _ in range(4):
            pages = await asyncio.gather(*(reader.page(asked(limit=1000)) for _ in range(16)))
            assert {len(page.events) for page in pages} == {13}
        await asyncio.gather(*(audit.note(Act(f"{who}", "here", "node.remove", "", {})) for who in range(50)))
        verdict = await audit.verify()
        assert (verdict.entries, verdict.fault) == (50, "")


async def test_without_a_direct_way_the_server_says_what_to_give(bouncer: PgBouncer, start_server: StartServer) -> None:
    """pgbouncer refuses the options of a connection; the reason names the setting that helps."""
    async with start_server(database=bouncer.conninfo, prepared=False) as server:
        found = await until(lambda: server.ask("GET", "nodes"), lambda found: "options" in found[1]["detail"])
        assert found[0] == 503
        assert "give direct_database" in found[1]["detail"]
