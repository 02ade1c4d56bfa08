"""The server's writer, with event counts, catalogue and rollups, compared with a bare adbc_ingest of the rows."""

import tempfile
import time
from pathlib import Path

import psycopg

from bench.measure import Result, at_least
from scope_catalogue.catalogue import streams
from scope_cli.bench_store.costs import written
from scope_cli.bench_store.fill import Filler
from scope_cli.bench_store.load import Load
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.schema.migrate import migrate
from scope_server.store.schema.tables import Tables

ROWS = 200_000  # rows stored before the measurement
MACHINES = 50


def run() -> list[Result]:
    """Rows per second of both, measured in turns, and CPU per row."""
    tables = Tables(streams().values())
    load = Load(ROWS, machines=MACHINES, days=0.5, late=0.05, end_ns=time.time_ns())
    with tempfile.TemporaryDirectory(prefix="scope") as folder, PrivatePostgres(Path(folder) / "pg") as postgres:
        with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
            migrate(connection, tables)
        filler = Filler(postgres.conninfo(), tables, load)
        filler.fill(load, lambda _: None)
        found = written(filler, load)
        filler.close()
    results = [
        at_least("server: rows/s through the writer, compared with a bare adbc_ingest", found.of_bare, 0.85),
        Result("server: rows/s through the writer", f"{found.rows_a_second / 1e6:.2f} M"),
        Result("server: CPU per row, with decoding", f"{found.cpu_us:.2f} µs"),
    ]
    if found.postgres_cpu_us is not None:
        results.append(Result("PostgreSQL: CPU per row, with vacuum", f"{found.postgres_cpu_us:.2f} µs"))
    return results
