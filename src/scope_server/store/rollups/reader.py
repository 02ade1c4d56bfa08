"""Answers from rollups: series and rankings, with texts for keys."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from scope_server.errors import InvalidQuery
from scope_server.store.reading.database import Connection, Database
from scope_server.store.rollups.query import MACHINE, SETTINGS, RollupQuery, by_second, ranking, series

_TEXTS = "SELECT id, text FROM store.names WHERE id = ANY(%s::bigint[])"
_MACHINES = "SELECT id, machine_id, hostname FROM store.machines WHERE id = ANY(%s::bigint[])"

Row = Mapping[str, Any]


class Rollups:
    """Reads rollups."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(self, query: RollupQuery) -> list[dict[str, Any]]:
        """The groups in order, with JSON types: keys, totals and, for a series, `points`.

        Raises:
            InvalidQuery: the query takes too long.
            StoreUnavailable: the database cannot be reached.
        """
        try:
            async with self._database.connection() as connection, connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                await connection.execute(SETTINGS)
                if query.every_s == 1:
                    return await _seconds(connection, query)
                return await _groups(connection, query)
        except psycopg.errors.QueryCanceled:
            raise InvalidQuery(
                "the query takes too long; narrow it with since and until, or use longer steps"
            ) from None


async def _groups(connection: Connection, query: RollupQuery) -> list[dict[str, Any]]:
    totals = await (await connection.execute(ranking(query))).fetchall()
    totals = [
        row for row in totals if row["count"] is not None
    ]  # without keys, there is a row even if nothing was counted
    shown = await _keys(connection, query, totals)
    points: defaultdict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
    if query.every_s:
        groups = [_place(query, row) for row in totals]
        for row in await (await connection.execute(series(query, groups))).fetchall():
            values = _values(query, row, quantiles=query.order == "p99")
            points[_place(query, row)].append({"time": row["time"].isoformat(), **values})
    return [
        shown[_place(query, row)]
        | _values(query, row)
        | ({"points": points[_place(query, row)]} if query.every_s else {})
        for row in totals
    ]


async def _seconds(connection: Connection, query: RollupQuery) -> list[dict[str, Any]]:
    rows = await (await connection.execute(by_second(query))).fetchall()
    points: defaultdict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
    totals: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for row in rows:
        place = _place(query, row)
        points[place].append({"time": row["time"].isoformat(), "count": row["count"]})
        totals[place] += row["count"]
    first = sorted(totals, key=lambda place: (-totals[place], place))[: query.top]
    shown = await _keys(connection, query, [dict(zip(("k0",), place, strict=False)) for place in first])
    return [shown[place] | {"count": totals[place], "points": points[place]} for place in first]


async def _keys(
    connection: Connection, query: RollupQuery, rows: Iterable[Row]
) -> dict[tuple[int, ...], dict[str, Any]]:
    # The texts of each group's keys; null if absent.
    places = [_place(query, row) for row in rows]
    texts: dict[int, str] = {}
    machines: dict[int, dict[str, Any]] = {}
    named = sorted({key for place in places for of, key in zip(query.by, place, strict=True) if of != MACHINE})
    if named:
        texts = {row["id"]: row["text"] for row in await (await connection.execute(_TEXTS, [named])).fetchall()}
    if MACHINE in query.by:
        asked = sorted({place[query.by.index(MACHINE)] for place in places})
        found = await (await connection.execute(_MACHINES, [asked])).fetchall()
        machines = {row["id"]: {"machine_id": row["machine_id"], "hostname": row["hostname"]} for row in found}
    shown: dict[tuple[int, ...], dict[str, Any]] = {}
    for place in places:
        shown[place] = {}
        for of, key in zip(query.by, place, strict=True):
            shown[place] |= machines.get(key, {}) if of == MACHINE else {of: texts.get(key)}
    return shown


def _place(query: RollupQuery, row: Row) -> tuple[int, ...]:
    return tuple(row[f"k{number}"] for number in range(len(query.by)))


def _values(query: RollupQuery, row: Row, quantiles: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"count": row["count"]}
    if query.table.failures:
        found["failed"] = row["failed"]
    if query.table.rollup.measured:
        total = int(row["sum"])
        found |= {"sum": total, "mean": total / row["count"] if row["count"] else None}
        found |= {name: row[name] for name in ("p50", "p99") if quantiles}
    return found
