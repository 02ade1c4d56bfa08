"""One store filled with rows, and what people ask of it: pages, totals, flame graphs, comparisons.

`scope bench store --rows N` asks the same of another number of rows.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import psycopg

from bench.measure import Result, at_most
from scope_catalogue.catalogue import streams
from scope_cli.bench_store.fill import Filler
from scope_cli.bench_store.load import Load
from scope_cli.bench_store.questions import ask_all
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.schema.migrate import migrate
from scope_server.store.schema.tables import Tables

ROWS = 10_000_000  # of them a tenth with stacks
MACHINES = 50


def run(rows: int = ROWS) -> list[Result]:
    """The 95th percentile of each question's time."""
    tables = Tables(streams().values())
    load = Load(rows, machines=MACHINES, days=1.0, late=0.05, end_ns=time.time_ns(), states=rows // 10)
    with tempfile.TemporaryDirectory(prefix="scope") as folder, PrivatePostgres(Path(folder) / "pg") as postgres:
        with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
            migrate(connection, tables)
        filler = Filler(postgres.conninfo(), tables, load)
        filler.fill(load, lambda _: None)
        with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        answered = asyncio.run(ask_all(filler, load, lambda _: None))
        filler.close()
    return [at_most(f"of {rows:,} rows, p95: {each.question}", each.p95_ms, each.goal_ms, " ms") for each in answered]
