"""Minutes of which rows were committed since a snapshot, and their totals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg import sql

from scope_server.store.reading.database import Connection
from scope_server.store.reading.queries import queries
from scope_server.store.schema.columns import StreamTable

MINUTE_S = 60
_TEXT = 200  # characters of a label that are kept
_NOW = "SELECT pg_current_snapshot()::text AS now, extract(epoch FROM now())::float8 AS now_s"
_OTHER = sql.Literal("other")


@dataclass(frozen=True)
class Touched:
    """What was committed.

    Attributes:
        snapshot: of now.
        now_s: the database's clock, since 1970.
        minutes: since 1970, of each stream, in order.
    """

    snapshot: str
    now_s: float
    minutes: Mapping[str, Sequence[int]]


async def touched(connection: Connection, streams: Sequence[str], seen: str) -> Touched:
    """Minutes with rows that were committed after a snapshot; call it in a transaction with one snapshot.

    Args:
        seen: empty: none are asked for.

    Raises:
        psycopg.Error: the database refused a query.
    """
    now = await (
        await connection.execute(
            "SELECT pg_current_snapshot()::text AS now, extract(epoch FROM now())::float8 AS now_s"
        )
    ).fetchone()
    assert now
    minutes: dict[str, list[int]] = {}
    if seen:
        asked = {"streams": list(streams), "seen": seen, "now": now["now"]}
        for row in await (await connection.execute(queries()["touched_minutes"], asked)).fetchall():
            minutes.setdefault(row["stream"], []).append(row["minute"])
    return Touched(now["now"], now["now_s"], minutes)


async def totals(
    connection: Connection, table: StreamTable, first: int, last: int, most: int
) -> Sequence[Mapping[str, Any]]:
    """Totals of the minutes from the first to the last one.

    Rows have `minute`, `machine_id`, `hostname`, the keys of the stream's rollup, `count`, `sum` and `failed`.

    Args:
        most: groups of a minute; the keys and machines of all smaller ones are `other`.

    Raises:
        psycopg.Error: the database refused a query.
    """
    keys = ["machine_id", "hostname", *table.rollup.by]
    named = [sql.Identifier(name) for name in keys]
    query = sql.SQL(
        "WITH each AS (SELECT minute, {cut}, sum(count) AS count, sum(sum) AS sum, sum(failed) AS failed"
        " FROM {function}({since}, {until}) GROUP BY minute, {places}),"
        " ranked AS (SELECT *, row_number() OVER (PARTITION BY minute ORDER BY count DESC, {names}) <= {most} AS kept"
        " FROM each)"
        " SELECT extract(epoch FROM minute)::bigint / 60 AS minute, {shown}, sum(count)::numeric AS count,"
        " sum(sum)::numeric AS sum, sum(failed)::numeric AS failed FROM ranked"
        " GROUP BY minute, {places} ORDER BY minute"
    ).format(
        cut=sql.SQL(", ").join(sql.SQL("left({n}, {t}) AS {n}").format(n=name, t=_TEXT) for name in named),
        function=sql.Identifier("scope", f"{table.name}_minutes"),
        since=sql.Literal(datetime.fromtimestamp(first * MINUTE_S, UTC)),
        until=sql.Literal(datetime.fromtimestamp((last + 1) * MINUTE_S, UTC)),
        places=sql.SQL(", ").join(sql.SQL(str(place)) for place in range(2, len(keys) + 2)),
        names=sql.SQL(", ").join(named),
        most=sql.Literal(most),
        shown=sql.SQL(", ").join(
            sql.SQL("CASE WHEN kept THEN {n} ELSE {other} END AS {n}").format(n=name, other=_OTHER) for name in named
        ),
    )
    return await (await connection.execute(query)).fetchall()
