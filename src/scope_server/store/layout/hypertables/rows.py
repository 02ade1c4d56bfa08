"""Queries of a stream's rows in its hypertable.

PostgreSQL leaves chunks out by conditions on the rows' time only: conditions on blocks choose batches, and mean nothing
here.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from psycopg import sql

from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.layout.contract import BLOCK, PART, PLACE, Conditions, Record
from scope_server.store.layout.hypertables.tables import ROWS
from scope_server.store.schema.columns import BASE

_AND = sql.SQL(" AND ")
_COMMA = sql.SQL(", ")
# The part of a row is its process, since rows of a process lie together, see `tables`. Its batch would do to tell it.
_PART = "process"


def rows(
    stream: str,
    columns: Iterable[Record],
    where: Sequence[sql.Composable] = (),
    blocks: Sequence[sql.Composable] = (),  # noqa: ARG001  # there are none
    *,
    as_stored: Collection[str] = (),  # noqa: ARG001  # lists lie as lists
    only: Collection[str] | None = None,
) -> sql.Composed:
    """A query of the stream's rows with all columns, or only these."""
    return _query(stream, _names(columns) if only is None else _COMMA.join(map(sql.Identifier, only)), where)


def places(
    stream: str,
    columns: Iterable[Record],  # noqa: ARG001  # PostgreSQL reads only what is named
    where: Sequence[sql.Composable],
    blocks: Sequence[sql.Composable],  # noqa: ARG001  # there are none
    also: Sequence[str] = (),
) -> sql.Composed:
    """A query of the places of rows: process, batch and ordinal."""
    place = sql.SQL(f"time, batch, ordinal, {_PART} AS {PART}, batch AS {BLOCK}, ordinal AS {PLACE}")
    return _query(stream, _COMMA.join([place, *map(sql.Identifier, also)]), where)


def rows_at(
    stream: str,
    columns: Iterable[Record],
    found: sql.Composable,
    where: Sequence[sql.Composable],
    *,
    with_block: bool = False,
) -> sql.Composed:
    """A query of the rows at the places in the table `found`: of those that meet the conditions, as they did."""
    names = _names(columns, "r")
    shown = _COMMA.join([names, sql.SQL(f"r.{_PART} AS {PART}, r.batch AS {BLOCK}")]) if with_block else names
    at = sql.SQL(
        f"r.{_PART} = ANY(ARRAY(SELECT DISTINCT {PART} FROM {{found}}))"
        f" AND r.batch = ANY(ARRAY(SELECT DISTINCT {BLOCK} FROM {{found}}))"
        f" AND (r.batch, r.ordinal) IN (SELECT {BLOCK}, {PLACE} FROM {{found}})"
    ).format(found=found)
    return _query(stream, shown, [*where, at])


def within(since: sql.Composable | None, until: sql.Composable | None) -> Conditions:
    """Conditions for times from `since` (included) to `until` (excluded)."""
    of_rows: list[sql.Composable] = []
    of_batches: list[sql.Composable] = []
    if since:
        of_rows.append(sql.SQL("time >= {}").format(since))
        of_batches.append(sql.SQL("last_time >= {}").format(since))
    if until:
        of_rows.append(sql.SQL("time < {}").format(until))
        of_batches.append(sql.SQL("first_time < {}").format(until))
    return of_rows, of_batches


def spans(spans: Sequence[tuple[datetime, datetime]]) -> Conditions:
    """Conditions for times in any of these spans: on rows, since these leave out chunks."""
    each = [_AND.join(within(sql.Literal(begin), sql.Literal(end))[0]) for begin, end in spans]
    begin, end = min(begin for begin, _ in spans), max(end for _, end in spans)
    outer, _ = within(sql.Literal(begin), sql.Literal(end))
    return [*outer, sql.SQL("(({}))").format(sql.SQL(") OR (").join(each))], []


def holding(held: str, keys: Sequence[int]) -> sql.Composable | None:
    """The condition on batches of these machines; of a batch's processes and names nothing is known."""
    if not keys:
        return sql.SQL("false")
    return sql.SQL("machine = ANY({})").format(_array(keys)) if held == "machines" else None


def batches(stream: str) -> sql.Composed:
    """The stream's batches, as blocks."""
    return sql.SQL(
        "(SELECT id, machine, first_time, last_time, event_count AS row_count FROM store.batches"
        " WHERE stream = {}) AS b"
    ).format(sql.Literal(stream))


def chosen(blocks: Iterable[tuple[int, str]]) -> Conditions:
    """Conditions for the rows of these batches."""
    return [sql.SQL("r.batch = ANY({})").format(_array([int(batch) for _, batch in blocks]))], []


def references(stream: str, columns: Iterable[Record], dimension: Dimension) -> list[sql.Composable]:
    """Queries of the keys of a dimension in the rows' columns."""
    if dimension.kind in BASE:
        names = [dimension.kind]
    else:
        names = [column["name"] for column in columns if column["kind"] == dimension.kind]
    table = sql.Identifier(ROWS, stream)
    return [sql.SQL("SELECT DISTINCT {} AS id FROM {}").format(sql.Identifier(name), table) for name in names]


def _query(stream: str, wanted: sql.Composable, where: Sequence[sql.Composable]) -> sql.Composed:
    met = sql.SQL(" WHERE {}").format(_AND.join(where)) if where else sql.SQL("")
    return sql.SQL("SELECT {} FROM {} AS r{}").format(wanted, sql.Identifier(ROWS, stream), met)


def _names(columns: Iterable[Record], *of: str) -> sql.Composed:
    return _COMMA.join(sql.Identifier(*of, name) for name in (*BASE, *(column["name"] for column in columns)))


def _array(keys: Sequence[int]) -> sql.Composed:
    return sql.SQL("{}::bigint[]").format(sql.Literal(f"{{{','.join(map(str, keys))}}}"))
