"""What rows cost: bytes by what they are for, CPU here and in PostgreSQL, and the writer against a bare ingest."""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa

from scope_cli.bench_store.fill import GROUP, Filler
from scope_cli.bench_store.load import ROWS_A_BATCH, Load
from scope_server.store.dimensions.declared import of_parts, of_rows
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout
from scope_server.store.schema.columns import BASE, StreamTable
from scope_server.store.writing.delivery import Batch, Delivery
from scope_server.store.writing.rows import Part, StreamRows

_ROUNDS = 5
_GROUPS = 4  # a round
_SIZES = """
SELECT n.nspname, CASE WHEN n.nspname = 'store' THEN c.relname ELSE coalesce(p.relname, c.relname) END AS table,
       sum(pg_total_relation_size(c.oid))::bigint AS bytes
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class p ON p.oid = i.inhparent
WHERE n.nspname IN ('fresh', 'packed', 'rollups', 'latest', 'ranked', 'store') AND c.relkind IN ('r', 'm')
GROUP BY 1, 2"""
_DIMENSIONS = tuple(one.table for one in (*of_rows(), *of_parts()))
_FRESH = 'SELECT coalesce(sum(row_count), 0)::bigint FROM fresh."{}"'
_STORED = "SELECT stream, sum(event_count)::bigint FROM store.batches GROUP BY 1"


@dataclass(frozen=True)
class Size:
    """What some tables take, and how many rows of streams they are for."""

    what: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class Written:
    """What writing costs: rows a second of the writer as a share of a bare ingest's, and µs of CPU a row."""

    rows_a_second: float
    of_bare: float
    cpu_us: float
    postgres_cpu_us: float | None


def sizes(conninfo: str, layout: Layout = BLOCKS) -> list[Size]:
    """What there is, by what it is for; of what is no stream's own, for the rows of all streams."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        stored: dict[str, int] = dict(connection.execute(_STORED).fetchall())
        found: dict[str, Size] = {}
        fresh = dict.fromkeys(stored, 0)
        if layout is BLOCKS:
            for stream in stored:
                (fresh[stream],) = connection.execute(_FRESH.format(stream).encode()).fetchone() or (0,)
        else:
            for one in layout.measured(connection).days:
                before = found[one.table].bytes if one.table in found else 0
                found[one.table] = Size(f"{one.table}: {layout.name}", before + one.bytes, stored[one.table])
        for schema, table, size in connection.execute(_SIZES).fetchall():
            what, rows = "tasks, books and the like", sum(stored.values())
            if schema == "fresh" and table in stored:
                what, rows = f"{table}: fresh blocks", fresh[table]
            elif schema == "packed" and table in stored:
                what, rows = f"{table}: packed blocks", stored[table] - fresh[table]
            elif schema == "rollups" and table in stored:
                what, rows = f"{table}: rollups", stored[table]
            elif schema in ("latest", "ranked"):
                what = f"{table}: latest states"
                rows = stored.get(table, 0)
            elif schema == "store" and table.startswith("batches"):
                what = "catalogue of batches"
            elif schema == "store" and table in _DIMENSIONS:
                what = "names, stacks, frames, processes"
            found[what] = Size(what, found[what].bytes + size if what in found else size, rows)
        return sorted((one for one in found.values() if one.bytes), key=lambda one: one.what)


def written(filler: Filler, load: Load) -> Written:
    """The writer and a bare adbc_ingest of the same rows of `syscall`, in turn, the latter a row each."""
    with (
        psycopg.connect(filler.conninfo, autocommit=True) as connection,
        _bare_table(connection, filler.tables["syscall"]),
    ):
        layout = filler.tables.layout
        filler.write(filler.deliveries(load.fresh(GROUP)))
        took: dict[str, list[float]] = {"writer": [], "bare": []}
        cpu = 0.0
        of_postgres: list[float] = []
        rows = GROUP * _GROUPS * ROWS_A_BATCH
        for _ in range(_ROUNDS):
            records = [load.fresh(GROUP) for _ in range(_GROUPS)]
            bare = [_stored(filler, filler.deliveries(group)) for group in records]
            before, own = _postgres_cpu_s(connection), time.process_time()
            began = time.perf_counter()
            decoding = 0.0
            for group in records:
                at = time.perf_counter()
                deliveries = filler.deliveries(group)
                decoding += time.perf_counter() - at
                filler.write(deliveries)
            took["writer"].append(time.perf_counter() - began - decoding)
            cpu += time.process_time() - own
            connection.execute(f"VACUUM {next(iter(layout.kept))}.syscall, rollups.syscall, store.batches".encode())
            after = _postgres_cpu_s(connection)
            if before is not None and after is not None:
                of_postgres.append((after - before) * 1e6 / rows)
            began = time.perf_counter()
            _ingest(filler.conninfo, bare)
            took["bare"].append(time.perf_counter() - began)
    seconds = {name: statistics.median(values) for name, values in took.items()}
    return Written(
        rows / seconds["writer"],
        seconds["bare"] / seconds["writer"],
        cpu * 1e6 / rows / _ROUNDS,
        statistics.median(of_postgres) if of_postgres else None,
    )


@contextmanager
def _bare_table(connection: psycopg.Connection[tuple[object, ...]], table: StreamTable) -> Iterator[None]:
    # A row each, with the index by time that any such table needs.
    columns = BASE | {column.name: column.sql for column in table.columns}
    fields = ", ".join(f'"{name}" {type_}' for name, type_ in columns.items())
    connection.execute("CREATE SCHEMA bench")
    try:
        connection.execute(f"CREATE TABLE bench.syscall ({fields}) PARTITION BY RANGE (time)".encode())
        connection.execute("CREATE TABLE bench.syscall_all PARTITION OF bench.syscall DEFAULT")
        connection.execute("CREATE INDEX ON bench.syscall USING brin (time)")
        yield
    finally:
        connection.execute("DROP SCHEMA bench CASCADE")


def _stored(filler: Filler, deliveries: list[Delivery]) -> pa.Table:
    batches = [each.content for each in deliveries if isinstance(each.content, Batch) and each.content.rows]
    parts = [Part(one.rows.rows, 1, one.rows.boot_to_utc_ns) for one in batches if one.rows]
    rows = StreamRows(filler.tables["syscall"], parts)
    # The keys do not matter: any number takes as long to send.
    keys = {dimension: dict.fromkeys(values, 1) for dimension, values in rows.wanted.items()}
    return rows.stored(list(range(len(parts))), keys)


def _ingest(conninfo: str, groups: list[pa.Table]) -> None:
    with adbc.connect(conninfo, autocommit=False) as connection, connection.cursor() as cursor:
        for rows in groups:
            cursor.adbc_ingest("syscall", rows, mode="append", db_schema_name="bench")
            connection.commit()


def _postgres_cpu_s(connection: psycopg.Connection[tuple[object, ...]]) -> float | None:
    """CPU that PostgreSQL's processes have taken, those that have ended too; None if it runs elsewhere."""
    backend = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert backend
    try:
        if "postgres" not in Path(f"/proc/{backend[0]}/comm").read_text():
            return None
        postmaster = _stat(str(backend[0]))[1]
        total = 0
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with_ended = folder.name == str(postmaster)
                try:
                    fields = _stat(folder.name)
                except OSError:
                    continue
                if with_ended or fields[1] == postmaster:
                    total += sum(fields[11:15] if with_ended else fields[11:13])
    except OSError:
        return None
    return total / os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> list[int]:
    # From the state on, which is no number: so counted from the parent.
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [0, *map(int, words[1:])]
