"""`scope bench store`: all its rows are stored and counted, and every question has an answer."""

import time

import psycopg

from scope_catalogue.catalogue import streams
from scope_cli.bench_store.costs import sizes
from scope_cli.bench_store.fill import Filler
from scope_cli.bench_store.load import STREAMS, Load
from scope_cli.bench_store.questions import ask_all
from scope_server.store.schema.migrate import migrate
from scope_server.store.schema.tables import Tables


async def test_a_small_fleet(database: str) -> None:
    """The books count all filled rows as stored; all its streams have rows; sizes and answers are reported."""
    tables = Tables(streams().values())
    with psycopg.connect(database, autocommit=True) as connection:
        migrate(connection, tables)
        load = Load(100_000, machines=3, days=0.5, late=0.3, end_ns=time.time_ns(), states=101)
        filler = Filler(database, tables, load)
        rows = filler.fill(load, lambda _: None)
        books = "SELECT sum(stored)::bigint, sum(lost)::bigint, count(*) FROM scope.books"
        assert connection.execute(books).fetchone() == (
            rows,
            0,
            *(connection.execute("SELECT count(*) FROM store.runs").fetchone() or ()),
        )
        stored: dict[str, int] = dict(
            connection.execute("SELECT stream, sum(event_count)::bigint FROM store.batches GROUP BY 1").fetchall()
        )
        assert set(stored) == {*STREAMS, "cuda_live"}
        assert stored["cuda_live"] == 101
        sized = {one.what for one in sizes(database)}
        assert {"syscall: fresh blocks", "syscall: rollups", "catalogue of batches"} <= sized
        answered = await ask_all(filler, load, lambda _: None, repeats=1)
        assert len({one.question for one in answered}) == len(answered) >= 15
        filler.close()
