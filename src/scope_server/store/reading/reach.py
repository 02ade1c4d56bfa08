"""How far a bounded number of rows goes: back from the end of a selection, or on from its begin."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg import sql

from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import Conditions
from scope_server.store.reading.selection import Selection

_MICROSECOND = timedelta(microseconds=1)
_MOST_BLOCKS = 200  # that are looked at for the begin of a selection


@dataclass(frozen=True)
class Reach:
    """What can be read.

    Attributes:
        since: all rows of the selection since then.
        complete: these are all rows of the selection.
    """

    since: datetime
    complete: bool


async def newest(connection: Connection, wanted: Selection, found: Conditions, most: int) -> Reach:
    """How far the newest blocks of a selection go back that have at most so many rows together.

    Args:
        wanted: with a begin.
        found: its conditions.
    """
    assert wanted.since
    layout = wanted.table.layout
    _, of_blocks = layout.within(*(sql.Literal(time) if time else None for time in (wanted.since, wanted.until)))
    where = sql.SQL(" AND ").join([*found.blocks, *of_blocks])
    blocks = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT last_time, row_count FROM {} WHERE {}").format(one, where)
        for one in layout.blocks(wanted.table.name)
    )
    query = sql.SQL(
        "SELECT max(last_time) FILTER (WHERE total > {}) AS beyond FROM ("
        "SELECT last_time, sum(row_count) OVER (ORDER BY last_time DESC ROWS UNBOUNDED PRECEDING) AS total"
        " FROM ({}) AS b) AS s"
    ).format(sql.Literal(most), blocks)
    row = await (await connection.execute(query)).fetchone()
    beyond = row and row["beyond"]
    return Reach(max(beyond + _MICROSECOND, wanted.since), False) if beyond else Reach(wanted.since, True)


@dataclass(frozen=True)
class Ahead:
    """The oldest blocks of a selection.

    Attributes:
        until: rows before that time are in these blocks; None: these are all blocks.
        empty: there are none.
    """

    until: datetime | None
    empty: bool = False


async def oldest(connection: Connection, wanted: Selection, found: Conditions, most: int) -> Ahead:
    """The oldest blocks that have at most so many rows together; more, where many blocks are of the same time, as those
    of many machines are.

    Args:
        wanted: with a begin.
        found: its conditions.
    """
    assert wanted.since
    layout = wanted.table.layout
    _, of_blocks = layout.within(*(sql.Literal(time) if time else None for time in (wanted.since, wanted.until)))
    where = sql.SQL(" AND ").join([*found.blocks, *of_blocks])
    since, limited = (
        sql.Literal(wanted.since),
        sql.SQL("ORDER BY first_time LIMIT {}").format(sql.Literal(_MOST_BLOCKS)),
    )
    begun, ahead = (
        sql.SQL(" UNION ALL ").join(
            sql.SQL("(SELECT {} FROM {} WHERE {} AND first_time {} {} {})").format(
                sql.SQL(columns), one, where, sql.SQL(sign), since, rest
            )
            for one in layout.blocks(wanted.table.name)
        )
        for columns, sign, rest in (("row_count", "<=", sql.SQL("")), ("first_time, row_count", ">", limited))
    )
    statement = sql.SQL("SELECT count(*) AS blocks, coalesce(sum(row_count), 0)::bigint AS rows FROM ({}) AS b")
    (first,) = await (await connection.execute(statement.format(begun))).fetchall()
    blocks = await (await connection.execute(sql.SQL("SELECT * FROM ({}) AS b {}").format(ahead, limited))).fetchall()
    total = first["rows"]
    for block in blocks:
        total += block["row_count"]
        if total > most:
            return Ahead(block["first_time"])
    if len(blocks) == _MOST_BLOCKS:
        return Ahead(blocks[-1]["first_time"])
    return Ahead(None, not blocks and not first["blocks"])
