"""Queries of current states: the largest groups."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import sql
from psycopg.rows import DictRow

from scope_server.store.latest.groups import largest_groups
from scope_server.store.latest.layout import Layout, layout_of
from scope_server.store.reading.database import Database
from scope_server.store.schema.columns import StreamTable

_MORE = 4  # factor by which to read more groups if the first ones are not enough


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
    conditions: list[sql.Composable] = [sql.SQL("true")]
    if machine is not None:
        conditions.append(sql.SQL("g.machine = {}").format(machine))
    if processes is not None:
        conditions.append(sql.SQL("g.process = ANY({}::bigint[])").format(list(processes)))
    return largest_groups(
        layout,
        most=sql.Literal(most),
        since=sql.Literal(since),
        conditions=sql.SQL(" AND ").join(conditions),
        by_day=processes is None,
    )
