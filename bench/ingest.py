"""The server's way into PostgreSQL against a bare adbc_ingest of the same rows into the same table definition."""

import tempfile
import time
import uuid
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import psycopg
import pyarrow as pa

from bench.measure import Result, at_least, median_of
from scope_bpf.catalogue import probe_named, probes
from scope_server.store.columns import stream_tables
from scope_server.store.delivery import Decoded, Delivery, Verdict
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.rows import Part, StreamRows
from scope_server.store.schema import migrate
from scope_server.store.writer import Writer

ROWS_A_BATCH = 8192
BATCHES = 64
GROUP = 8
BOOT_TO_UTC_NS = 1_790_000_000_000_000_000


def run() -> list[Result]:
    """Rows a second, both ways, in one run."""
    tables = stream_tables(probes())
    with tempfile.TemporaryDirectory(prefix="scope") as folder, PrivatePostgres(Path(folder) / "pg") as postgres:
        with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
            migrate(connection, tables.values())
            connection.execute(
                "INSERT INTO scope.machines (machine_id, hostname, kernel, architecture, cpus, memory_bytes,"
                " agent_version) VALUES ('m', 'm', '', '', 1, 1, '')"
            )
        batches = [_rows(number) for number in range(BATCHES)]
        writer = Writer(postgres.conninfo(), tables)
        warm_up = _deliveries(str(uuid.uuid4()), batches[:1])
        writer.write(warm_up)
        seconds = median_of(
            3,
            {
                "writer": lambda: _through_the_writer(writer, batches),
                "bare": lambda: _bare(postgres.conninfo(), tables["syscall"], batches),
            },
        )
        writer.close()
    rows = ROWS_A_BATCH * BATCHES
    return [
        at_least("server: rows/s through the writer / bare adbc_ingest", seconds["bare"] / seconds["writer"], 0.7),
        Result("server: rows/s", ", ".join(f"{name} {rows / value / 1e6:.2f} M" for name, value in seconds.items())),
    ]


def _through_the_writer(writer: Writer, batches: list[pa.Table]) -> float:
    deliveries = _deliveries(str(uuid.uuid4()), batches)
    began = time.perf_counter()
    for at in range(0, len(deliveries), GROUP):
        outcomes = writer.write(deliveries[at : at + GROUP])
        assert all(outcome.verdict is Verdict.STORED for outcome in outcomes)
    return time.perf_counter() - began


def _bare(conninfo: str, table: object, batches: list[pa.Table]) -> float:
    from scope_server.store.columns import StreamTable

    assert isinstance(table, StreamTable)
    stored = []
    for at in range(0, len(batches), GROUP):
        parts = [Part(rows, 1, 1, BOOT_TO_UTC_NS) for rows in batches[at : at + GROUP]]
        rows = StreamRows(table, parts)
        names = dict.fromkeys(rows.names, 1)
        stored.append(rows.stored(names, dict.fromkeys(rows.processes, 1)))
    with adbc.connect(conninfo, autocommit=False) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        for rows_ in stored:
            cursor.adbc_ingest("syscall", rows_, mode="append", db_schema_name="events")
            connection.commit()
        return time.perf_counter() - began


def _deliveries(task_id: str, batches: list[pa.Table]) -> list[Delivery]:
    first = BOOT_TO_UTC_NS
    return [
        Delivery(
            machine=1,
            task_id=task_id,
            sequence=number + 1,
            stream="syscall",
            probe="syscalls",
            event_count=rows.num_rows,
            boot_to_utc_ns=BOOT_TO_UTC_NS,
            emitted=rows.num_rows * (number + 1),
            losses=(),
            content=Decoded(rows, first, first + 10**9 * (number + 2)),
        )
        for number, rows in enumerate(batches)
    ]


def _rows(number: int) -> pa.Table:
    probe = probe_named("syscalls")
    schema = probe.schema(probe.streams[0])
    random = np.random.default_rng(number)
    columns = {}
    for field in schema:
        if pa.types.is_dictionary(field.type):
            codes = pa.array(random.integers(0, 7, ROWS_A_BATCH).astype(np.int32))
            columns[field.name] = pa.DictionaryArray.from_arrays(codes, pa.array([f"name{n}" for n in range(7)]))
        else:
            columns[field.name] = pa.array(random.integers(0, 1 << 15, ROWS_A_BATCH)).cast(field.type)
    columns["ktime_ns"] = pa.array((number * 10**9 + np.arange(ROWS_A_BATCH) * 1000).astype(np.uint64))
    columns["pid"] = pa.array(random.integers(1, 50, ROWS_A_BATCH).astype(np.int32))
    columns["start_ns"] = pa.array(np.full(ROWS_A_BATCH, 7, np.uint64))
    return pa.table(columns, schema=schema)
