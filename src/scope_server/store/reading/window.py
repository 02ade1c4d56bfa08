"""Uses the columns about blocks as an index: finds a time range with the next rows and only few blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from psycopg import sql

from scope_server.store.reading.database import Connection
from scope_server.store.schema.columns import StreamTable

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Scope:
    """The blocks to search, and the direction.

    Attributes:
        conditions: conditions on blocks; without any, all blocks of the stream.
        since, until: time range of rows; `until` is excluded.
    """

    table: StreamTable
    conditions: Sequence[sql.Composable]
    since: datetime | None
    until: datetime | None
    ascending: bool


@dataclass(frozen=True)
class Window:
    """The time range with the first rows of a scope.

    Attributes:
        since, until: the time range.
        whole: all rows of the scope are in this range.
    """

    since: datetime | None
    until: datetime | None
    whole: bool


async def look(connection: Connection, scope: Scope, most: int) -> Window:
    """The window with the first `most` blocks of a scope, not counting blocks that its start cuts."""
    # Newest first: take the blocks that end last; other blocks have no rows after the end of these. Oldest first: the
    # reverse.
    edge, step, beyond = ("first_time", "ASC", ">=") if scope.ascending else ("last_time", "DESC", "<")
    begin = scope.since if scope.ascending else scope.until
    layout = scope.table.layout
    _, of_blocks = layout.within(*(sql.Literal(time) if time else None for time in (scope.since, scope.until)))
    where = [sql.SQL("true"), *scope.conditions, *of_blocks]
    if begin:
        where.append(sql.SQL("{} {} {}").format(sql.Identifier(edge), sql.SQL(beyond), sql.Literal(begin)))
    order = sql.SQL("ORDER BY {} {} LIMIT {}").format(sql.Identifier(edge), sql.SQL(step), sql.Literal(most + 1))
    both = sql.SQL(" UNION ALL ").join(
        sql.SQL("(SELECT {edge} FROM {table} WHERE {where} {order})").format(
            edge=sql.Identifier(edge),
            table=blocks,
            where=sql.SQL(" AND ").join(where),
            order=order,
        )
        for blocks in layout.blocks(scope.table.name)
    )
    found = await (await connection.execute(sql.SQL("SELECT * FROM ({}) AS b {}").format(both, order))).fetchall()
    window = Window(scope.since, scope.until, len(found) <= most)
    if window.whole:
        return window
    last = found[most][edge]
    return replace(window, until=last) if scope.ascending else replace(window, since=last + _MICROSECOND)
