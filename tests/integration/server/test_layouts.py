"""Rows are found, added up and dropped alike, however they lie: each rule holds in blocks and in hypertables."""

import asyncio
import itertools
import random
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests import timescale
from tests.integration.server.api.recorded import bytes_of
from tests.integration.server.closed_days import DAY_NS, LONG_AGO, any_rows
from tests.integration.server.every_stream import told
from tests.integration.server.keeping import TODAY, ago
from tests.integration.server.laid import LAID, Laid
from tests.integration.server.records import FIRST_KTIME_NS, STORED, Line, Run, lined, make_machine, rows
from tests.integration.server.running import running
from tests.integration.server.tables import asked, migrated

from scope_catalogue.catalogue import streams
from scope_catalogue.stream import TypedColumn
from scope_server.errors import SchemaConflict
from scope_server.settings import Settings
from scope_server.store.answers import sample
from scope_server.store.reading.database import Database
from scope_server.store.reading.reader import EventQuery, Order, Reader
from scope_server.store.reading.selection import Selection
from scope_server.store.retention import Disk, Retention, Sweep
from scope_server.store.schema.learning import learn
from scope_server.store.schema.tables import Tables

SCALE = Path(__file__).parents[3] / "docs/scale.md"
BEGIN = datetime.fromtimestamp((LONG_AGO + FIRST_KTIME_NS) / 1e9, UTC)
WINDOW = {"since": (BEGIN - timedelta(minutes=1)).isoformat(), "until": (BEGIN + timedelta(days=3)).isoformat()}
FILTERS = {
    "": lambda _: True,
    "pid = 815": lambda row: row["pid"] == 815,
    "pid = 815 and comm = 'comm 2'": lambda row: row["pid"] == 815 and row["comm"] == "comm 2",
    "comm = rare": lambda row: row["comm"] == "rare",
    "comm ~ 'r*e' or arg0 < 7 and pid != 815": lambda row: (
        row["comm"] == "rare" or (row["arg0"] < 7 and row["pid"] != 815)
    ),
    "arg0 >= 117 and arg0 <= 383": lambda row: 117 <= row["arg0"] <= 383,
    "pid = 1": lambda _: False,
}
ASKED = {
    "events/syscall": {"where": "comm = rare", "limit": "50"},
    "aggregates/syscall": {"by": "comm,pid", "cells": "count,failed,sum(duration_ns),p99(duration_ns)", "top": "5"},
    "heatmap/syscall": {"column": "duration_ns"},
    "flamegraph/profile": {"format": "folded"},
    "flamegraph/profile?of=syscall": {"format": "folded", "where": "arg0 = 20"},
    "export/syscall": {"format": "csv", "where": "pid = 815"},
    "compare/syscall": {"where": "pid = 815"},
    "slowest/syscall": {"limit": "7"},
    "losses": {},
}


def _numbered(first: int) -> Run:
    """A run with known ids, so that answers of two databases can be compared."""
    run = Run(uuid.UUID(int=first))
    run.run_id = uuid.UUID(int=first + 1)
    return run


async def _fill(line: Line) -> list[dict[str, Any]]:
    """Thirty batches with overlapping times, of two machines and days, and stacks; returns the rows."""
    other = make_machine(line.conninfo, "f" * 32)
    chance, sent = random.Random(2), []
    run, others = _numbered(10), _numbered(20)
    for n in range(30):
        length = 30 if n % 7 else 3_000
        ktimes = [FIRST_KTIME_NS + 1000 * (n * 50 + k * length) for k in range(20)]
        comms = ["rare" if chance.random() < 0.05 else f"comm {k % 4}" for k in range(20)]
        pid, whose = 815 if n % 3 == 0 else 4711, {"machine": other} if n % 5 == 4 else {}
        boot = LONG_AGO + (2 * DAY_NS if n >= 25 else 0)
        batch = rows(20, 20 * n, pid=pid, ktime_ns=ktimes, comm=comms)
        answers = await line.send((others if whose else run).batch(n + 1, batch, boot_to_utc_ns=boot), **whose)
        assert [answer.verdict for answer in answers] == [STORED]
        sent += [
            {"time": boot + ktime, "pid": pid, "comm": comm, "arg0": 20 * n + k, "second": bool(whose)}
            for k, (ktime, comm) in enumerate(zip(ktimes, comms, strict=True))
        ]
    samples = told("profile")
    of_thread = pa.array([4711] * samples.num_rows, samples.schema.field("tid").type)
    samples = samples.set_column(samples.schema.get_field_index("tid"), "tid", of_thread)
    await line.send(run.batch(1, samples, stream="profile", boot_to_utc_ns=LONG_AGO))
    return sent


@pytest.fixture
async def line(laid: Laid) -> AsyncIterator[Line]:
    """The ingest path to the database."""
    async with laid.line() as started:
        yield started


@pytest.fixture
async def events(laid: Laid, line: Line) -> AsyncIterator[Reader]:
    """A reader of the line's database."""
    async with Database(line.conninfo, 4, 60) as database:
        await database.prepare(laid.tables)
        yield Reader(database)


def _shown(line: Line) -> dict[str, list[Any]]:
    """All rows of every stream's view, as texts."""
    asked_for = "SELECT r::text FROM scope.{} AS r ORDER BY time, batch, ordinal"
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        return {stream: connection.execute(asked_for.format(stream).encode()).fetchall() for stream in line.tables}


async def _all_streams(line: Line) -> None:
    run = _numbered(30)
    for number, stream in enumerate(line.tables):
        sent = run.batch(number + 1, any_rows(stream, 41), stream=stream, boot_to_utc_ns=LONG_AGO)
        assert [answer.verdict for answer in await line.send(sent)] == [STORED], stream


async def test_rows_come_back(laid: Laid, line: Line, database: str) -> None:
    """Rows of every stream, extreme values too, come back as from blocks, before and after they are packed."""
    await _all_streams(line)
    before = _shown(line)
    assert {len(found) for found in before.values()} == {41}
    assert laid.pack() > 0
    assert _shown(line) == before
    if database != laid.conninfo:
        async with Laid(database, LAID["blocks"]).line() as blocks:
            await _all_streams(blocks)
            assert _shown(blocks) == before


@pytest.mark.parametrize("packed", [False, True])
async def test_the_function_has_its_window(laid: Laid, line: Line, packed: bool) -> None:
    """scope.STREAM(since, until) returns the rows from since on and before until, and those of the view."""
    sent = await _fill(line)
    if packed:
        laid.pack()
    times = sorted(row["time"] // 1000 for row in sent)
    for first, last in ((0, 600), (17, 23), (100, 499), (595, 600)):
        since, until = times[first], times[last] if last < 600 else times[-1] + 1
        wanted = sorted(row["arg0"] for row in sent if since <= row["time"] // 1000 < until)
        given = [datetime.fromtimestamp(0, UTC) + timedelta(microseconds=one) for one in (since, until)]
        ((found,),) = line.query("SELECT array_agg(arg0 ORDER BY arg0) FROM scope.syscall(%s, %s)", *given)
        assert found == wanted
    ((count, whole),) = line.query("SELECT count(*), sum(arg0)::bigint FROM scope.syscall WHERE comm = 'comm 1'")
    mine = [row["arg0"] for row in sent if row["comm"] == "comm 1"]
    assert (count, whole) == (len(mine), sum(mine))


@pytest.mark.parametrize("packed", [False, True])
async def test_pages_are_whole_and_in_order(laid: Laid, line: Line, events: Reader, packed: bool) -> None:
    """Pages have each wanted row once, by time in both directions, and as they were committed."""
    sent = await _fill(line)
    if packed:
        laid.pack()
    for (where, meets), order in itertools.product(FILTERS.items(), Order):
        query = replace(asked(where=where, order=order, limit=171), table=laid.tables["syscall"])
        if order is Order.STORED:
            query = replace(query, since=BEGIN - timedelta(days=1))
        found = await _every(events, query)
        wanted = [row for row in sent if meets(row)]
        assert sorted(event["arg0"] for event in found) == [row["arg0"] for row in wanted], (where, order)
        if order is Order.STORED:
            assert [event["arg0"] for event in found] == [row["arg0"] for row in wanted]
        else:
            times = [event["time"] for event in found]
            assert times == sorted(times, reverse=order is Order.DESCENDING)
    machines = [make_machine(line.conninfo, "f" * 32).key]
    found = await _every(events, EventQuery(laid.tables["syscall"], machines=machines, limit=171))
    assert sorted(event["arg0"] for event in found) == [row["arg0"] for row in sent if row["second"]]


@pytest.mark.parametrize("packed", [False, True])
async def test_small_blocks_give_a_sample_that_is_large_enough(
    laid: Laid, line: Line, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each of many blocks has only a few rows."""
    monkeypatch.setattr(sample, "_MOST_BLOCKS", 4)
    run = _numbered(10)
    for n in range(60):
        answers = await line.send(run.batch(n + 1, rows(4, 4 * n), boot_to_utc_ns=LONG_AGO))
        assert [answer.verdict for answer in answers] == [STORED]
    if packed:
        laid.pack()
    async with Database(line.conninfo, 1, 60) as database:
        await database.prepare(laid.tables)
        async with database.snapshot() as connection:
            taken = await sample.sample(connection, Selection(laid.tables["syscall"]), 60, ["time", "arg0"])
    assert taken.found == 240
    assert 30 <= taken.rows.num_rows <= 60
    assert taken.rows["arg0"].to_pylist() == sorted(taken.rows["arg0"].to_pylist())


async def _every(events: Reader, query: EventQuery) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = await events.page(query)
        found += page.events
        if not (page.more if query.order is Order.STORED else page.next):
            return found
        query = replace(query, cursor=page.next)


async def _answers(laid: Laid, folder: Path) -> dict[str, Any]:
    """What the API answers, without what tells one store from another."""
    anywhere: dict[str, Any] = dict.fromkeys(("http", "ingest", "enrol"), "127.0.0.1:0")
    files: dict[str, Any] = {"socket": folder / "api.sock", "authority": folder / "authority", "state_dir": folder}
    settings = Settings(database=laid.conninfo, layout=laid.tables.layout.name, **anywhere, **files)
    async with running(settings) as server:
        asked_for = {path: await bytes_of(server, path, **WINDOW | query) for path, query in ASKED.items()}
    return {path: (status, body) for path, (status, _, body) in asked_for.items()}


async def test_the_api_answers_the_same(laid: Laid, line: Line, database: str, tmp_path: Path) -> None:
    """Pages, totals, heatmaps, flame graphs, comparisons and slowest rows are as from blocks."""
    await _fill(line)
    found = await _answers(laid, tmp_path)
    assert {path: status for path, (status, _) in found.items()} == dict.fromkeys(found, 200)
    assert b"rare" in found["events/syscall"][1]
    assert found["flamegraph/profile?of=syscall"][1].count(b"\n") > 1
    laid.pack()
    assert await _answers(laid, tmp_path) == found
    if database != laid.conninfo:
        blocks = Laid(database, LAID["blocks"])
        async with blocks.line() as other:
            await _fill(other)
        assert await _answers(blocks, tmp_path) == found


async def test_days_go(laid: Laid, line: Line) -> None:
    """Retention deletes whole days, whose sizes it knows, with the texts that only they had; the others stay."""
    run = Run()
    for number, day in enumerate((0, 1, 2, 5, 6)):
        batch = rows(101, 101 * number, comm=[f"of day {day}"] * 101)
        assert [a.verdict for a in await line.send(run.batch(number + 1, batch, boot_to_utc_ns=ago(day)))] == [STORED]
    laid.pack()
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        retention = Retention(Disk(0, 1 << 40), 2, lambda: TODAY, laid.tables.layout)
        while retention.step(connection):
            pass
        assert (retention.dropped_days, retention.dropped_rows) == ({"age": 2}, 202)
        assert retention.dropped_bytes > 0
        left = {TODAY - timedelta(days=day) for day in (0, 1, 2)}
        assert set(retention.storage.days) == left
        assert all(size > 8192 for size in retention.storage.days.values())
        found = line.query("SELECT DISTINCT (time AT TIME ZONE 'UTC')::date FROM scope.syscall")
        assert {day for (day,) in found} == left
        _sweep(connection, laid)
    names = {name for (name,) in line.query("SELECT text FROM store.names WHERE text LIKE 'of day %'")}
    assert names == {f"of day {day}" for day in (0, 1, 2)}


def _sweep(connection: psycopg.Connection[Any], laid: Laid) -> None:
    job = Sweep(laid.tables.layout)
    for _ in range(1000):
        if connection.execute("SELECT due > 0 FROM store.sweep").fetchone() != (True,):
            return
        job.step(connection)
    raise AssertionError("the sweep did not end")


@pytest.mark.parametrize("laid", ["hypertables"], indirect=True)
async def test_continuous_aggregates_of_ones_own(laid: Laid, line: Line) -> None:
    """The continuous aggregate of docs/scale.md counts rows before and after they are small, and keeps dropped days."""
    (text,) = re.findall(r"```sql\n(.*?)```", SCALE.read_text(), re.DOTALL)
    made, asks, _ = text.split(";")
    run = Run()

    async def send(number: int, day: int) -> None:
        batch = rows(101, 101 * number, duration_ns=[number] * 101)
        assert [a.verdict for a in await line.send(run.batch(number, batch, boot_to_utc_ns=ago(day)))] == [STORED]

    def counted(days: int) -> list[tuple[Any, ...]]:
        line.query(f"CALL refresh_continuous_aggregate('calls_of_hours', now() - interval '{days} days', NULL)")
        return sorted(line.query(asks), key=str)

    def expected() -> list[tuple[Any, ...]]:
        found = line.query(
            "SELECT date_trunc('hour', time), hostname, name, count(*), max(duration_ns) FROM scope.syscall"
            " GROUP BY 1, 2, 3"
        )
        return sorted(found, key=str)

    await send(1, 0)
    await send(2, 5)
    line.query(made)
    before = counted(7)
    assert before == expected() and len(before) == 4
    laid.pack()
    await send(3, 0)
    assert counted(7) == expected() != before
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        retention = Retention(Disk(0, 1 << 40), 2, lambda: TODAY, laid.tables.layout)
        while retention.step(connection):
            pass
    assert retention.dropped_rows == 101
    kept, left = counted(2), expected()
    assert [row for row in kept if row in left] == left
    assert (sum(row[3] for row in kept), sum(row[3] for row in left)) == (303, 202)


async def test_columns_come(laid: Laid, line: Line) -> None:
    """A column that an agent describes is added to rows that are there, and to those that come."""
    await line.send(Run().batch(1, rows(53), boot_to_utc_ns=LONG_AGO))
    laid.pack()
    known = streams()["syscall"]
    described = replace(
        known, columns=(*known.columns, *(TypedColumn("", name=f"new_{n}", type="int64") for n in (1, 2)))
    )
    learning = Tables(streams().values(), laid.tables.layout)
    await asyncio.to_thread(learn, line.conninfo, learning, described)
    async with lined(line.conninfo, tables=learning) as newer:
        columns = rows(59)
        for name, value in (("new_1", 7), ("new_2", None)):
            columns = columns.append_column(name, pa.array([value] * 59, pa.int64()))
        assert [a.verdict for a in await newer.send(Run().batch(1, columns, boot_to_utc_ns=LONG_AGO))] == [STORED]
    asked_for = "SELECT count(*), count(new_1), sum(new_1)::bigint, count(new_2) FROM scope.syscall('-infinity')"
    assert line.query(asked_for) == [(112, 59, 7 * 59, 0)]
    laid.pack()
    assert line.query(asked_for) == [(112, 59, 7 * 59, 0)]


def test_a_database_keeps_its_layout(laid: Laid) -> None:
    """A server that asks for another layout does not start, and is told what to ask for."""
    (other,) = (tables for tables in LAID.values() if tables.layout.name != laid.tables.layout.name)
    with pytest.raises(SchemaConflict, match=f"start with --layout {laid.tables.layout.name}"):
        migrated(laid.conninfo, other)


def test_hypertables_need_the_extension(empty_database: str) -> None:
    """Without TimescaleDB, the error says what to do, and nothing is made."""
    with pytest.raises(SchemaConflict, match="CREATE EXTENSION timescaledb"):
        migrated(empty_database, LAID["hypertables"])
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT to_regnamespace('store')").fetchone() == (None,)


def test_without_one_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tester who has TimescaleDB is told how to name it."""
    monkeypatch.delenv(timescale.NAMED, raising=False)
    assert timescale.NAMED in timescale.lacking()
