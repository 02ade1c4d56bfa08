"""How far back a bounded number of rows goes."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg import sql

from scope_server.store.blocks.layout import FRESH, PACKED
from scope_server.store.blocks.rows import within
from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import Conditions
from scope_server.store.reading.selection import Selection

_MICROSECOND = timedelta(microseconds=1)


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
    _, of_blocks = within(*(sql.Literal(time) if time else None for time in (wanted.since, wanted.until)))
    where = sql.SQL(" AND ").join([*found.blocks, *of_blocks])
    blocks = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT last_time, row_count FROM {} WHERE {}").format(sql.Identifier(schema, wanted.table.name), where)
        for schema in (FRESH, PACKED)
    )
    query = sql.SQL(
        "SELECT max(last_time) FILTER (WHERE total > {}) AS beyond FROM ("
        "SELECT last_time, sum(row_count) OVER (ORDER BY last_time DESC ROWS UNBOUNDED PRECEDING) AS total"
        " FROM ({}) AS b) AS s"
    ).format(sql.Literal(most), blocks)
    row = await (await connection.execute(query)).fetchone()
    beyond = row and row["beyond"]
    return Reach(max(beyond + _MICROSECOND, wanted.since), False) if beyond else Reach(wanted.since, True)
