"""Takes rows of one day out of their partition and puts them into blocks, by single statements: never a row in both."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import psycopg
from psycopg import sql

from scope_server.store.blocks.layout import Record, is_list, stored
from scope_server.store.columns import OF_BLOCK, Kind
from scope_server.store.partitions import Partition

Connection = psycopg.Connection[Any]

BLOCK_ROWS = 8192  # or up to twice as many, where the rows do not make whole blocks
_MOST_RANGES = 48  # of batches: each is a look into the rows' index
_COLUMNS = "SELECT columns FROM store.streams WHERE stream = %s ORDER BY version DESC LIMIT 1"
_BATCHES = """
SELECT id FROM store.batches WHERE stream = %s AND last_time >= %s AND first_time < %s ORDER BY id"""

# The rows are deleted and entered by one statement, so that there is no moment at which they are lost or doubled, and
# no record of what was done: it is what is left.
_MOVE = """
WITH moved AS (
    DELETE FROM {partition} WHERE {where} RETURNING {names}
), counted AS (
    SELECT *, row_number() OVER (ORDER BY time, batch, ordinal) - 1 AS place, count(*) OVER () AS total FROM moved
), packed AS (
    SELECT count(*)::integer AS row_count, {packed}
    FROM counted
    GROUP BY place * greatest(total / {block_rows}, 1) / total
)
INSERT INTO {blocks} ({of_block}, {names})
SELECT time[1], time[row_count], row_count,
       (SELECT array_agg(DISTINCT u::bigint) FROM unnest(machine) u),
       (SELECT array_agg(DISTINCT u) FROM unnest(process) u),
       {found}, {names}
FROM packed
RETURNING row_count"""
_FOUND = "(SELECT coalesce(array_agg(DISTINCT u), '{{}}') FROM unnest({}) u WHERE u IS NOT NULL)"


def move_time(connection: Connection, partition: Partition, since: datetime, until: datetime) -> int:
    """Moves the partition's rows of a time, as far as the catalogue of batches knows them; how many there were."""
    with connection.transaction():
        ids = [number for (number,) in connection.execute(_BATCHES, [partition.table, since, until])]
        if not ids:
            return 0
        # Where the rows lie is found by batch: in the index of times each late batch hides where the others are.
        ranges = [
            sql.SQL("batch BETWEEN {} AND {}").format(sql.Literal(first), sql.Literal(last))
            for first, last in _ranges(ids)
        ]
        where = sql.SQL("time >= {} AND time < {} AND ({})").format(
            sql.Literal(since), sql.Literal(until), sql.SQL(" OR ").join(ranges)
        )
        return _moved(connection, partition, where)


def move_pages(connection: Connection, partition: Partition, first: int, last: int) -> int:
    """Moves all that pages of the partition have, the last not among them; how many rows there were."""
    with connection.transaction():
        where = sql.SQL("ctid >= {} AND ctid < {}").format(sql.Literal(f"({first},0)"), sql.Literal(f"({last},0)"))
        return _moved(connection, partition, where)


def _moved(connection: Connection, partition: Partition, where: sql.Composable) -> int:
    # A column that is added now would be left behind: whoever adds one waits for this lock.
    connection.execute(
        sql.SQL("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE").format(sql.Identifier("events", partition.table))
    )
    # A partition that was not analyzed looks as if its BRIN indexes were of no use.
    connection.execute("SET LOCAL enable_seqscan = off")
    connection.execute("SET LOCAL work_mem = '64MB'")
    found = connection.execute(_COLUMNS, [partition.table]).fetchone()
    columns: Sequence[Mapping[str, str]] = found[0] if found else []
    return sum(rows for (rows,) in connection.execute(_statement(partition, columns, where)))


def _statement(partition: Partition, columns: Sequence[Record], where: sql.Composable) -> sql.Composed:
    every = stored(columns)
    packed = [
        sql.SQL("array_agg({n}{text} ORDER BY time, batch, ordinal) AS {n}").format(
            n=sql.Identifier(column["name"]), text=sql.SQL("::text" if is_list(column) else "")
        )
        for column in every
    ]
    keyed = [sql.Identifier(column["name"]) for column in columns if column["kind"] in (Kind.NAME, Kind.STACK)]
    return sql.SQL(_MOVE).format(
        partition=sql.Identifier(partition.schema, partition.name),
        where=where,
        names=sql.SQL(", ").join(sql.Identifier(column["name"]) for column in every),
        packed=sql.SQL(", ").join(packed),
        block_rows=sql.Literal(BLOCK_ROWS),
        blocks=sql.Identifier("blocks", partition.table),
        of_block=sql.SQL(", ").join(map(sql.Identifier, OF_BLOCK)),
        found=sql.SQL(_FOUND).format(sql.SQL(" || ").join(keyed)) if keyed else sql.SQL("'{}'::bigint[]"),
    )


def _ranges(ids: Sequence[int]) -> list[tuple[int, int]]:
    # Cut at the widest gaps.
    gaps = sorted(range(1, len(ids)), key=lambda place: ids[place - 1] - ids[place])[: _MOST_RANGES - 1]
    cuts = [0, *sorted(place for place in gaps if ids[place] - ids[place - 1] > 1), len(ids)]
    return [(ids[begin], ids[end - 1]) for begin, end in pairwise(cuts)]
