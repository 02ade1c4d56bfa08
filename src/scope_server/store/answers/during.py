"""What was sampled while rows of another stream lasted: the rows' times are read, and samples within them are found."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from psycopg import sql

from scope_catalogue.stream import Mode
from scope_server.store.answers.lasting import Lasting
from scope_server.store.answers.part import part_of
from scope_server.store.answers.sample import Sample, sample
from scope_server.store.answers.side import conditions_of
from scope_server.store.answers.spans import Spans, Within, spans, within
from scope_server.store.reading.database import Connection
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable

MOST_ROWS = 50_000  # of each side, whose times are read
_MOST_SAMPLES = 200_000  # of each stream that are looked at for one within these times


async def samples_during(
    connection: Connection, table: StreamTable, sides: Sequence[Selection], how: Lasting
) -> tuple[list[Within], list[Sample]]:
    """The samples of a stream while the rows of each side lasted, and the rows that were read to know these times.

    A sample while a row of the first side lasted is of no other side. Call it in a transaction with one snapshot.

    Raises:
        psycopg.Error: the database refused a query.
    """
    read = [await sample(connection, side, MOST_ROWS, how.columns) for side in sides]
    first, *others = (spans(each.rows, how) for each in read)
    return [within(table, first), *(within(table, other, besides=first) for other in others)], read


async def sampled_streams(
    connection: Connection, tables: Iterable[StreamTable], rows: pa.Table, how: Lasting
) -> list[str]:
    """The streams with stacks that were sampled while rows lasted; of many samples, evenly chosen ones are looked at.

    Args:
        rows: with `how.columns`, as stored.

    Raises:
        psycopg.Error: the database refused a query.
    """
    times = spans(rows, how)
    return [each.name for each in tables if stacks_of_threads(each) and await _any(connection, each, times)]


def stacks_of_threads(table: StreamTable) -> str | None:
    """The column of stacks of single threads, each at one time; None: the stream has none."""
    if table.described.mode is Mode.SUMMARY or not table.of_processes or table.column("tid") is None:
        return None
    return next((column.name for column in table.described.columns if column.stack), None)


async def _any(connection: Connection, table: StreamTable, times: Spans) -> bool:
    column = stacks_of_threads(table)
    if not len(times.begin) or column is None:
        return False
    part = await part_of(connection, table, await conditions_of(connection, within(table, times)), _MOST_SAMPLES)
    if not part.read:  # the times of many rows are a long query
        return False
    stacked = sql.SQL("r.{} IS NOT NULL").format(sql.Identifier(column))
    every = table.layout.places(table.name, table.records, [*part.conditions.rows, stacked], part.conditions.blocks)
    found = await (await connection.execute(sql.SQL("SELECT FROM ({}) AS e LIMIT 1").format(every))).fetchall()
    return bool(found)
