"""Queries of current states: the largest groups."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import sql
from psycopg.rows import DictRow

from scope_server.store.latest.layout import Layout, layout_of
from scope_server.store.latest.shown import joins, listed, of, readable, who
from scope_server.store.reading.database import Database
from scope_server.store.schema.columns import WHOLE, StreamTable

_LARGEST = (1 << 63) - 1  # larger sums are reported as this
_MORE = 4  # factor by which to read more groups if the first ones are not enough

_RANKED = """
SELECT {columns} FROM ranked.{stream} AS g
WHERE g.held > 0 AND g.day >= {day} AND {conditions} ORDER BY {order} LIMIT {most}"""
# Day by day, each from its largest group; other days are not read.
_BY_DAY = """
SELECT {columns}
FROM (SELECT generate_series(greatest({day}, min(day)), max(day), '1 day')::date AS day
      FROM ranked.{stream} WHERE held > 0) AS d
CROSS JOIN LATERAL (
    SELECT * FROM ranked.{stream} AS g
    WHERE g.held > 0 AND g.day = d.day AND {conditions} ORDER BY {order} LIMIT {most}
) AS g
ORDER BY {order} LIMIT {most}"""
_ADDED_UP = """
SELECT {who}{shown}, s.time, s.states, g.total AS bound
FROM ({groups}) AS g
CROSS JOIN LATERAL (
    SELECT {sums}, max(l.time) AS time, count(*) AS states
    FROM latest.{stream} AS l WHERE {same} AND {held} AND l.time >= {since}
) AS s
{joins}
ORDER BY {order}"""


class States:
    """Queries states. For any number of concurrent tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def largest(
        self,
        table: StreamTable,
        *,
        since: datetime,
        limit: int,
        machine: int | None = None,
        processes: Sequence[int] | None = None,
    ) -> list[DictRow]:
        """The largest groups of states, as declared in the stream's `Latest`; those of ended processes come last.

        Args:
            since: older states are left out.
            machine: key of the only machine; None: all.
            processes: keys of the only processes; None: all.

        Returns:
            A row per group: machine_id, hostname, pid and start_ns if it has a process, `by`, `ended`, `totals`,
                `means`, and the time of the newest row.

        Raises:
            StoreUnavailable: the database cannot be reached, or is too slow.
        """
        layout = layout_of(table)
        if layout is None:
            return []
        # A group's rank includes all its states, but states that are too old may be most of the sum. So the groups
        # found are the answer only if each has more than any unread group can have.
        most = limit
        while True:
            query = _query(layout, since, most, machine, processes)
            rows = await self._database.rows(query)
            found = sorted((row for row in rows if row["states"]), key=lambda row: _place(layout, row))[:limit]
            whole = len(rows) < most
            enough = len(found) == limit and _place(layout, found[-1]) <= _place(layout, rows[-1], "bound")
            if whole or enough:
                return [{name: row[name] for name in row if name not in ("states", "bound")} for row in found]
            most *= _MORE


def _place(layout: Layout, row: DictRow, by: str | None = None) -> tuple[Any, ...]:
    return (*(row[name] for name in layout.ended), -(row[by or layout.latest.totals[0]] or 0))


def _query(
    layout: Layout, since: datetime, most: int, machine: int | None, processes: Sequence[int] | None
) -> sql.Composed:
    latest = layout.latest
    conditions: list[sql.Composable] = [sql.SQL("true")]
    if machine is not None:
        conditions.append(sql.SQL("g.machine = {}").format(machine))
    if processes is not None:
        conditions.append(sql.SQL("g.process = ANY({}::bigint[])").format(list(processes)))
    given = {
        "stream": sql.Identifier(layout.stream),
        "since": sql.Literal(since),
        "day": sql.SQL("({}::timestamptz AT TIME ZONE 'UTC')::date").format(since),
        "most": sql.Literal(most),
        "order": listed([*(of("g", name) for name in layout.ended), sql.SQL("g.total DESC")]),
    }
    groups = sql.SQL(_BY_DAY if processes is None else _RANKED).format(
        columns=listed([of("g", name) for name in ("machine", *layout.group, "total")]),
        conditions=sql.SQL(" AND ").join(conditions),
        **given,
    )
    return sql.SQL(_ADDED_UP).format(
        groups=groups,
        who=who(layout),
        shown=listed([*(readable(layout, "g", name) for name in latest.by), *_shown(layout)]),
        joins=joins(layout, "g", latest.by),
        sums=listed(_sums(layout)),
        same=sql.SQL(" AND ").join(sql.SQL("{} = {}").format(of("l", name), of("g", name)) for name in layout.group),
        held=layout.held("l"),
        **given,
    )


def _shown(layout: Layout) -> list[sql.Composed]:
    ended = [of("g", name) for name in layout.ended]
    return [*ended, *(of("s", name) for name in (*layout.latest.totals, *layout.latest.means))]


def _sums(layout: Layout) -> list[sql.Composed]:
    # Products of two 64-bit numbers are larger than 64 bits.
    total = sql.SQL("CASE WHEN sum({v}) > {most} THEN {most} ELSE sum({v}) END::bigint AS {name}")
    of_real = sql.SQL("sum({v}) AS {name}")
    mean = sql.SQL("(sum({v}::numeric * {w}) / nullif(sum({w}), 0))::bigint AS {name}")
    return [
        *(
            (total if layout.column(name).sql in WHOLE else of_real).format(
                v=of("l", name), most=_LARGEST, name=sql.Identifier(name)
            )
            for name in layout.latest.totals
        ),
        *(
            mean.format(v=of("l", name), w=of("l", weight), name=sql.Identifier(name))
            for name, weight in layout.latest.means.items()
        ),
    ]
