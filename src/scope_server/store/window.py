"""The catalogue as an index: which batches have the next rows, in order of time, and how far they tell all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from scope_server.store.database import Connection
from scope_server.store.filters import array

_MICROSECOND = timedelta(microseconds=1)
_MOST_LOOKED_UP = 128  # batches: the rows' index is read once for each


@dataclass(frozen=True)
class Scope:
    """Which batches are looked through, and from which end.

    Attributes:
        conditions: what a batch has to meet; without any, all of the stream.
        since, until: of rows; the latter is not in it.
    """

    stream: str
    conditions: Sequence[sql.Composable]
    since: datetime | None
    until: datetime | None
    ascending: bool


@dataclass(frozen=True)
class Window:
    """Where the first rows of a scope are.

    Attributes:
        since, until: within these times the window has all rows of the scope.
        batches: whose rows they are; None: anybody's.
        whole: there are no rows of the scope beyond it.
    """

    since: datetime | None
    until: datetime | None
    batches: Sequence[int] | None
    whole: bool

    @property
    def empty(self) -> bool:
        """Whether it has no rows."""
        return self.whole and self.batches == []

    def of_batches(self) -> list[sql.Composable]:
        """Conditions on rows that its batches have: no others are looked for, and these are found by it."""
        found: list[sql.Composable] = []
        if self.batches and len(self.batches) <= _MOST_LOOKED_UP:
            found.append(sql.SQL("batch = ANY({})").format(array(self.batches)))
        elif self.batches:
            bounds = sql.SQL("batch BETWEEN {} AND {}").format(min(self.batches), max(self.batches))
            found += [bounds, sql.SQL("batch + 0 = ANY({})").format(array(self.batches))]
        return found


async def look(connection: Connection, scope: Scope, most: int) -> Window:
    """The window of the first `most` batches of a scope, and of those that its beginning cuts."""
    # Newest first: what is not among those that end last has no row after their end. Oldest first: likewise.
    edge, step = ("first_time", "ASC") if scope.ascending else ("last_time", "DESC")
    where = _within(scope, edge)
    found = await _batches(
        connection,
        where,
        sql.SQL("ORDER BY {} {} LIMIT {}").format(sql.Identifier(edge), sql.SQL(step), sql.Literal(most + 1)),
    )
    whole, beyond = len(found) <= most, found[most:]
    found = found[:most]
    begin = scope.since if scope.ascending else scope.until
    if scope.conditions and begin:
        found += await _batches(connection, _cut(scope, begin), sql.SQL(""))
    window = Window(scope.since, scope.until, [row["id"] for row in found] if scope.conditions else None, whole)
    if beyond and scope.ascending:
        window = replace(window, until=beyond[0][edge])
    elif beyond:
        window = replace(window, since=beyond[0][edge] + _MICROSECOND)
    return _narrowed(window, found)


def _within(scope: Scope, edge: str) -> list[sql.Composable]:
    where = [sql.SQL("stream = {}").format(sql.Literal(scope.stream)), *scope.conditions]
    if scope.since:
        where.append(sql.SQL("{} >= {}").format(sql.Identifier(edge), sql.Literal(scope.since)))
    if scope.until:
        where.append(sql.SQL("{} < {}").format(sql.Identifier(edge), sql.Literal(scope.until)))
    return where


def _cut(scope: Scope, begin: datetime) -> list[sql.Composable]:
    at = sql.Literal(begin)
    return [
        sql.SQL("stream = {}").format(sql.Literal(scope.stream)),
        *scope.conditions,
        sql.SQL("tstzrange(first_time, last_time, '[]') @> {}::timestamptz").format(at),
        sql.SQL("first_time < {}").format(at),
        sql.SQL("last_time >= {}").format(at),
    ]


async def _batches(
    connection: Connection, where: Sequence[sql.Composable], order: sql.Composable
) -> list[dict[str, Any]]:
    query = sql.SQL("SELECT id, first_time, last_time FROM store.batches WHERE {} {}")
    return await (await connection.execute(query.format(sql.SQL(" AND ").join(where), order))).fetchall()


def _narrowed(window: Window, found: Sequence[dict[str, Any]]) -> Window:
    # So that partitions beyond them are not looked at.
    if window.batches is None or not found:
        return window
    since = min(row["first_time"] for row in found)
    until = max(row["last_time"] for row in found) + _MICROSECOND
    return replace(
        window,
        since=max(since, window.since) if window.since else since,
        until=min(until, window.until) if window.until else until,
    )
