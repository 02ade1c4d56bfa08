"""A sample of a selection's rows, in their stored form: all, or so many that are evenly chosen over the window.

Which rows are taken does not depend on chance: of the blocks in order of time each n-th, and of their rows each n-th.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql
from psycopg.rows import tuple_row

from scope_server.store.answers.part import Part, part_of
from scope_server.store.answers.side import conditions_of
from scope_server.store.answers.stacks import SETTINGS
from scope_server.store.reading.database import Connection
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import BASE, Kind, StreamTable

MOST_ROWS = 1_000_000  # that are looked at, to find those that meet a filter
MOST_UNFILTERED = 400_000  # the same, if nearly all do
_MOST_BLOCKS = 64  # from which rows are taken if they have enough: opening a block costs more than a row
_ENOUGH = 4  # times the wanted rows; blocks differ in what they have
BLOCK = "its block"  # no column has a blank in its name
_AT_ONCE = 2000  # rows that are converted before others get their turn
_SIGN = 1 << 64


@dataclass(frozen=True)
class Sample:
    """Rows.

    Attributes:
        rows: the columns of `BASE` and of the stream, as stored; unsigned numbers are unsigned. `BLOCK` is the number
            of a row's block.
        found: how many rows of the selection were found in the part that was looked at.
        part: what was looked at.
        whole: these are all rows of the selection, or rows of all its blocks.
    """

    rows: pa.Table
    found: int
    part: Part
    whole: bool

    @property
    def estimate(self) -> int:
        """How many rows the selection has: exact if all blocks were looked at."""
        return self.found if self.part.complete else round(self.found * self.part.rows / max(1, self.part.read))


async def sample(connection: Connection, wanted: Selection, most: int, columns: Sequence[str]) -> Sample:
    """At most so many rows. Call it in a transaction with one snapshot.

    Args:
        columns: of the stream or of `BASE`.

    Raises:
        psycopg.Error: the database refused a query.
    """
    await connection.execute(SETTINGS)
    looked_at = MOST_ROWS if wanted.where else MOST_UNFILTERED
    part = await part_of(connection, wanted.table, await conditions_of(connection, wanted), looked_at)
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_statement(wanted.table, part, most, columns))
        rows: list[tuple[object, ...]] = []
        while some := await cursor.fetchmany(_AT_ONCE):
            rows += some
            await asyncio.sleep(0)
    found, whole = (int(str(rows[0][-2])), part.complete and rows[0][-1] is True) if rows else (0, part.complete)
    return Sample(await asyncio.to_thread(_table, wanted.table, columns, rows), found, part, whole)


def _statement(table: StreamTable, part: Part, most: int, columns: Sequence[str]) -> sql.Composed:
    every = table.records
    # The places of a block's rows are one array: sorting and storing them one by one would take most of the time.
    return sql.SQL(
        "WITH met AS MATERIALIZED (SELECT {part}, {block}, min(time) AS first, array_agg({place}) AS places"
        " FROM ({met}) AS m GROUP BY {part}, {block}),"
        " counted AS (SELECT *, sum(cardinality(places)) OVER () AS every, count(*) OVER () AS blocks,"
        " row_number() OVER (ORDER BY first, {part}, {block}) AS turn FROM met),"
        " chosen AS (SELECT * FROM counted WHERE every <= {most}"
        " OR turn % (1 + least(blocks / {most_blocks}, every / {enough})) = 0),"
        " numbered AS (SELECT *, sum(cardinality(places)) OVER (ORDER BY turn) - cardinality(places) AS before,"
        " greatest(1, (sum(cardinality(places)) OVER () + {most} - 1) / {most}) AS step FROM chosen),"
        " found AS MATERIALIZED (SELECT {part}, {block}, places[n] AS {place} FROM numbered, LATERAL"
        " generate_series(1 + (step - before % step)::bigint % step, cardinality(places), step) AS place (n))"
        " SELECT {columns}, dense_rank() OVER (ORDER BY {part}, {block}), (SELECT max(every)::bigint FROM counted),"
        " (SELECT count(*) FROM counted) = (SELECT count(*) FROM chosen)"
        " FROM ({rows}) AS r ORDER BY time, batch, ordinal"
    ).format(
        part=sql.Identifier("its part"),
        block=sql.Identifier("its block"),
        place=sql.Identifier("its place"),
        met=table.layout.places(table.name, every, part.conditions.rows, part.conditions.blocks),
        most=sql.Literal(most),
        most_blocks=sql.Literal(_MOST_BLOCKS),
        enough=sql.Literal(_ENOUGH * most),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        rows=table.layout.rows_at(table.name, every, sql.Identifier("found"), part.conditions.rows, with_block=True),
    )


def _table(table: StreamTable, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    every = list(zip(*rows, strict=True)) or [()] * (len(columns) + 1)
    found = {name: _array(table, name, values) for name, values in zip(columns, every, strict=False)}
    return pa.table({**found, BLOCK: pa.array(every[len(columns)], pa.int64())})


def _array(table: StreamTable, name: str, values: Sequence[object]) -> pa.Array:
    if name in BASE:
        return pa.array(values, pa.timestamp("us", "UTC") if name == "time" else pa.int64())
    column = table.column(name)
    assert column is not None, name
    if column.kind is not Kind.UNSIGNED:
        return pa.array(values, column.stored)
    return pa.array([one + _SIGN if isinstance(one, int) and one < 0 else one for one in values], pa.uint64())
