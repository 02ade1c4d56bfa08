"""Arrays that the writer encodes are read by PostgreSQL unchanged."""

import math
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from scope_server.store.writing.connection import WriterConnection

# Columns of arrays: SQL type, type of the elements, and values.
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "eight": ("bigint[]", pa.int64(), [0, -1, (1 << 63) - 1, -(1 << 63)]),
    "four": ("integer[]", pa.int32(), [0, -5, (1 << 31) - 1]),
    "two": ("smallint[]", pa.int16(), [0, -5, 1 << 14]),
    "words": ("text[]", pa.string(), ["", "ä", "x" * 5000, "NULL", '"{\\']),
    "raw": ("bytea[]", pa.binary(), [b"", b"\0\xff"]),
    "single": ("real[]", pa.float32(), [0.5, -1.25, math.inf]),
    "double": ("double precision[]", pa.float64(), [0.1, -math.inf, -1e300, 5e-324]),
    "yes": ("boolean[]", pa.bool_(), [True, False]),
    "moments": ("timestamptz[]", pa.timestamp("us", "UTC"), [0, 1_763_000_000_123_456, -5]),
}


@pytest.fixture
def connection(empty_database: str) -> Iterator[WriterConnection]:
    """A writer's connection to a database with a table that has a column of each type."""
    columns = ", ".join(f"{name} {sql}" for name, (sql, _, _) in COLUMNS.items())
    with psycopg.connect(empty_database) as made:
        made.execute(f"CREATE TABLE arrays (place integer, {columns})".encode())
    connection = WriterConnection(empty_database)
    yield connection
    connection.close()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_sent_is_read(connection: WriterConnection, seed: int) -> None:
    """Arrays of every type are read as sent: empty, absent, with absent elements, and from sliced columns."""
    chance = random.Random(seed)
    rows, absent = chance.randrange(1, 7), chance.choice([0, 0.3])
    columns: dict[str, pa.Array] = {"place": pa.array(range(rows), pa.int32())}
    for name, (_, type_, values) in COLUMNS.items():
        lists = [
            [None if chance.random() < absent else chance.choice(values) for _ in range(chance.randrange(5))]
            for _ in range(rows)
        ]
        columns[name] = pa.array([None if chance.random() < absent else one for one in lists], pa.list_(type_))
    table = pa.table(columns)
    table = pa.concat_tables([table, table]).slice(chance.randrange(rows), rows)
    connection.ingest("public", "arrays", table)
    assert connection.table("SELECT * FROM arrays").to_pylist() == table.to_pylist()
