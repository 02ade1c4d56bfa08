"""The slowest rows of a selection, with a sample of all its rows to compare them with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from psycopg import sql

from scope_catalogue.condition import And
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.stream import Mode
from scope_catalogue.tables import SlowestRows
from scope_catalogue.where import read_filter
from scope_server.errors import InvalidQuery
from scope_server.store.answers.part import Part, part_of
from scope_server.store.answers.sample import Sample, sample
from scope_server.store.answers.side import conditions_of
from scope_server.store.answers.stacks import SETTINGS
from scope_server.store.answers.texts import texts_of
from scope_server.store.reading.database import Connection
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import WHOLE, Kind, StreamTable
from scope_server.store.schema.views import CONTAINER, joined
from scope_views.errors import ViewError
from scope_views.tables.slowest import Usual

MOST_ROWS = 2_000_000  # that are looked at
_SAMPLE = 5000  # rows that tell what is usual


@dataclass(frozen=True)
class Slowest:
    """The slowest rows.

    Attributes:
        rows: the slowest first, with texts, as `Reader.presented` takes them.
        sample: rows of the whole selection, with texts in place of keys.
        part: what was looked at.
    """

    rows: list[dict[str, Any]]
    sample: pa.Table
    part: Part
    found: Sample


def shown_as(table: StreamTable) -> SlowestRows:
    """How the stream's slowest rows are shown: as it declares, or by its duration.

    Raises:
        InvalidQuery: its rows have no duration.
    """
    described = table.described
    declared = [each for each in described.shown.tables if isinstance(each, SlowestRows)]
    if declared:
        return _checked(table, declared[0])
    for name in (table.rollup.measured, "duration_ns"):
        column = table.column(name)
        if described.mode is Mode.EVENTS and column and column.sql in WHOLE and described.by_name[name].unit == "ns":
            return SlowestRows((), name, ())
    raise InvalidQuery(f"the rows of {table.name} have no duration of their own", parameter="stream")


def _checked(table: StreamTable, how: SlowestRows) -> SlowestRows:
    """What an agent described may be wrong."""
    whole = {one.name for one in table.columns if one.kind in (Kind.PLAIN, Kind.UNSIGNED) and one.sql in WHOLE}
    try:
        Usual(table.described, how)
        if how.where:
            read_filter(how.where, table.types)
    except (ViewError, InvalidFilter) as error:
        raise InvalidQuery(f"how {table.name} is shown is not valid: {error}", parameter="stream") from None
    if strange := {how.duration, *how.parts} - whole:
        raise InvalidQuery(f"how {table.name} is shown is not valid: {min(strange)} is no number", parameter="stream")
    return how


async def slowest(connection: Connection, wanted: Selection, how: SlowestRows, limit: int) -> Slowest:
    """The slowest rows. Call it in a transaction with one snapshot.

    Raises:
        psycopg.Error: the database refused a query.
    """
    table = wanted.table
    if how.where:
        shown = read_filter(how.where, table.types)
        wanted = replace(wanted, where=And((wanted.where, shown)) if wanted.where else shown)
    found, part = await slowest_rows(connection, wanted, how.duration, limit)
    read = [one.name for one in table.columns if not one.is_stack and not one.is_list]
    usual = await sample(connection, wanted, _SAMPLE, read)
    return Slowest(found, await _with_texts(connection, table, usual.rows), part, usual)


async def slowest_rows(
    connection: Connection, wanted: Selection, duration: str, limit: int
) -> tuple[list[dict[str, Any]], Part]:
    """The rows with the largest values, as `Slowest.rows`, and what was looked at. Call it in a transaction.

    Raises:
        psycopg.Error: the database refused a query.
    """
    await connection.execute(SETTINGS)
    part = await part_of(connection, wanted.table, await conditions_of(connection, wanted), MOST_ROWS)
    found = await (await connection.execute(_statement(wanted.table, part, duration, limit))).fetchall()
    return found, part


def _statement(table: StreamTable, part: Part, duration: str, limit: int) -> sql.Composed:
    every = table.records
    # The duration is read of all rows, the other columns only of those that are shown.
    inner = table.layout.places(table.name, every, part.conditions.rows, part.conditions.blocks, also=(duration,))
    name = sql.Identifier(duration)
    return sql.SQL(
        "WITH found AS MATERIALIZED (SELECT * FROM ({inner}) AS r WHERE {name} IS NOT NULL"
        " ORDER BY ({name} < 0) DESC, {name} DESC, time, batch, ordinal LIMIT {limit})"
        " {shown} ORDER BY (e.{name} < 0) DESC, e.{name} DESC, e.time, e.batch, e.ordinal"
    ).format(
        inner=inner,
        name=name,
        limit=sql.Literal(limit),
        shown=joined(
            table.layout.rows_at(table.name, every, sql.Identifier("found"), part.conditions.rows),
            every,
            table.of_processes,
            task=sql.SQL("NULL::text AS task_id, "),
            also=CONTAINER,
        ),
    )


async def _with_texts(connection: Connection, table: StreamTable, found: pa.Table) -> pa.Table:
    for column in table.columns:
        if not column.is_text or column.dimension is None:
            continue
        keys = found[column.name].combine_chunks().dictionary_encode()
        known = await texts_of(connection, column.dimension, keys.dictionary.to_pylist())
        values = pa.array([known.get(key) for key in keys.dictionary.to_pylist()], pa.string()).take(keys.indices)
        found = found.set_column(found.schema.get_field_index(column.name), column.name, values)
    return found


def batch_of(table: StreamTable, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pa.RecordBatch:
    """Rows with texts as a batch with some of the stream's columns."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    return pa.RecordBatch.from_pylist([{name: row[name] for name in columns} for row in rows], schema=schema)
