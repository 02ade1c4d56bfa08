"""Ingest stops before the database's disk is full, and continues when there is space; no row is lost."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from tests.integration.server.keeping import DAY_NS
from tests.integration.server.records import FIRST_KTIME_NS, STORED, Run, envelope, rows
from tests.integration.server.running import Server, running, until
from tests.integration.server.stand_in_agent import StandInAgent

from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.record_pb2 import Record
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.retention import Disk

MIB = 1 << 20
FLOOR = 96 * MIB


@pytest.fixture
def disk() -> Iterator[Path]:
    """A separate file system of 512 MiB."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@pytest.fixture
def small(disk: Path) -> Iterator[PrivatePostgres]:
    """A PostgreSQL on the small disk, with a ballast too small to make room."""
    with PrivatePostgres(disk / "pg", {"max_wal_size": "64MB"}, ballast_bytes=MIB) as started:
        yield started


@asynccontextmanager
async def serving(small: PrivatePostgres, folder: Path) -> AsyncIterator[Server]:
    """A server that stores to this PostgreSQL."""
    anywhere: dict[str, Any] = dict.fromkeys(("http", "ingest", "enrol"), "127.0.0.1:0")
    files = (folder / "token", folder / "authority", folder)
    settings = Settings(small.conninfo(), *files, **anywhere, free_floor=FLOOR)
    async with running(settings) as server:
        yield server


@asynccontextmanager
async def filled(disk: Path, left: int) -> AsyncIterator[None]:
    """Fills the disk with another file while inside, except so many bytes."""
    file = disk / "somebody-elses"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with file.open("wb") as opened:
        os.posix_fallocate(opened.fileno(), 0, free - left)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


async def send(agent: StandInAgent, channel: grpc.aio.Channel, records: list[Record]) -> list[int]:
    """Sends records over one stream; returns the verdict on each, once all are answered."""
    stub: Any = SessionStub(channel)  # its type demands an iterator of requests
    call = stub.Upload()
    await call.write(session_pb2.UploadRequest(hello=agent.hello()))
    for position, record in enumerate(records):
        await call.write(envelope(record, position))
    found: dict[int, int] = {}
    async for reply in call:
        found |= {answer.position: answer.verdict for answer in reply.answers}
        if len(found) == len(records):
            break
    call.cancel()
    return [found[position] for position in range(len(records))]


def batch(run: Run, sequence: int, days: int = 0, count: int = 1009) -> Record:
    """A batch of rows from now, or from so many days ago."""
    moment = time.time_ns() // 1000 * 1000 - FIRST_KTIME_NS - days * DAY_NS
    return run.batch(sequence, rows(count, count * sequence), emitted=count * sequence, boot_to_utc_ns=moment)


async def test_ingest_waits_for_room(small: PrivatePostgres, disk: Path, tmp_path: Path) -> None:
    """Below the floor, no row is written, health says why, and queries work; with space again, all rows are stored."""
    agent, run = StandInAgent(), Run()
    async with serving(small, tmp_path) as server, agent.attending(server) as channel:
        assert await send(agent, channel, [batch(run, 1)]) == [STORED]
        async with filled(disk, FLOOR // 2):
            sending = asyncio.create_task(send(agent, channel, [batch(run, n) for n in range(2, 8)]))
            await until(lambda: server.ask("GET", "health"), lambda found: found[0] == 503)
            parts = await server.get("server")
            assert parts["ingest"].startswith("waits: only 4")
            assert "MiB are free on the database's disk (floor 96 MiB)" in parts["ingest"]
            assert parts["database"] == "ok"
            await until(lambda: metric(server, "scope_server_held_bytes"), lambda held: held > 0)
            assert len((await server.get("events", "syscall", limit=1000))["events"]) == 1000
            storage = await server.get("storage")
            assert storage["free_bytes"] < storage["floor_bytes"] == FLOOR
            await asyncio.sleep(1.5)
            assert not sending.done()
            assert server.query("SELECT count(*) FROM scope.syscall") == [(1009,)]
        assert await asyncio.wait_for(sending, 60) == [STORED] * 6
        assert (await until(lambda: server.ask("GET", "health"), lambda found: found[0] == 200))[1]["healthy"]
        books = "SELECT emitted, stored, lost, under_way FROM scope.books"
        assert server.query(books) == [(7 * 1009, 7 * 1009, 0, 0)]
        assert server.query("SELECT count(*), count(DISTINCT arg0) FROM scope.syscall") == [(7 * 1009, 7 * 1009)]


async def test_ingest_itself_does_not_fill_the_disk(small: PrivatePostgres, disk: Path, tmp_path: Path) -> None:
    """Writes under way when the floor is reached leave more than half of the floor free."""
    agent, run, count = StandInAgent(), Run(), 10_007
    async with serving(small, tmp_path) as server, agent.attending(server) as channel:
        assert await send(agent, channel, [batch(run, 1, 0, count)]) == [STORED]
        async with filled(disk, FLOOR + 16 * MIB):
            sent = [batch(run, number, 0, count) for number in range(2, 32)]
            sending = asyncio.create_task(send(agent, channel, sent))
            await until(lambda: server.ask("GET", "health"), lambda found: found[0] == 503)
            assert not sending.done()
            await until(lambda: asyncio.to_thread(settled, server), bool)
            assert os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > FLOOR // 2
        assert await asyncio.wait_for(sending, 90) == [STORED] * 30
        assert server.query("SELECT stored, lost FROM scope.books") == [(31 * count, 0)]


def settled(server: Server) -> bool:
    """Whether all writers are idle."""
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'scope writer' AND state <> 'idle'"
    return server.query(busy) == [(0,)]


async def metric(server: Server, name: str) -> float:
    import aiohttp

    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))


async def test_old_days_make_room(small: PrivatePostgres, disk: Path, tmp_path: Path) -> None:
    """Below the floor, the oldest day is deleted at once; the deletion is reported, and the books stay."""
    agent, run = StandInAgent(), Run()
    async with serving(small, tmp_path) as server, agent.attending(server) as channel:
        sent = [batch(run, number + 1, days) for number, days in enumerate((5, 3, 0))]
        assert await send(agent, channel, sent) == [STORED] * 3
        async with filled(disk, FLOOR // 2):
            dropped = "SELECT stream, rows, reason FROM scope.dropped WHERE stream IS NOT NULL"
            await until(lambda: asyncio.to_thread(server.query, dropped), lambda found: found)
            assert server.query(dropped) == [("syscall", 1009, "floor")]
            assert server.query("SELECT count(*) FROM scope.syscall") == [(2 * 1009,)]
            storage = await server.get("storage")
            assert storage["dropped_days"] == {"age": 0, "limit": 0, "floor": 1}
            assert [day["reason"] for day in storage["dropped"]] == ["floor"]
            assert await metric(server, 'scope_server_dropped_days_total{reason="floor"}') == 1
        assert server.query("SELECT stored, lost FROM scope.books") == [(3 * 1009, 0)]


def test_the_limits_come_from_the_disk(small: PrivatePostgres) -> None:
    """The default limits are shares of the disk; if the disk cannot be seen, the limit is fixed, without a floor."""
    with psycopg.connect(small.conninfo(), autocommit=True) as connection:
        looked = Disk()
        assert looked.shortage()
        looked.look(connection)
        assert looked.shortage() == ""
        assert looked.limit_bytes == 512 * MIB // 5
        assert looked.floor_bytes == 512 * MIB // 4
        connection.execute("CREATE ROLE plain LOGIN")
    with psycopg.connect(small.conninfo(), user="plain", autocommit=True) as connection:
        unseen = Disk()
        unseen.look(connection)
        assert (unseen.limit_bytes, unseen.floor_bytes, unseen.free_bytes, unseen.short) == (20 << 30, 0, None, False)
