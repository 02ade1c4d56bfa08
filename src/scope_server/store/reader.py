"""Pages of events: composed queries over narrow rows, joined to text only for the page."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from scope_server.errors import InvalidQuery
from scope_server.store.columns import IN_PROCESS, Kind, StoredColumn, StreamTable
from scope_server.store.database import Database
from scope_server.store.schema import joined

OPERATORS = {"eq": "=", "ne": "<>", "gte": ">=", "lte": "<="}
MOST_ROWS = 1000
_FIRST_WINDOW = 16  # batches looked at first; grows until the page is full
_WINDOW_GROWTH = 8


@dataclass(frozen=True)
class Filter:
    """A condition on a column; the value is text, as it came."""

    column: str
    operator: str
    value: str


@dataclass(frozen=True)
class EventQuery:
    """Which events are wanted, in which order, how many, and from where on."""

    table: StreamTable
    filters: Sequence[Filter] = ()
    since: datetime | None = None
    until: datetime | None = None
    machines: Sequence[int] | None = None
    ascending: bool = False
    limit: int = 100
    cursor: str = ""


@dataclass(frozen=True)
class Page:
    """Rows as dicts of JSON's types; `next` is the cursor of the following page, empty on the last one."""

    events: list[dict[str, Any]]
    next: str


class Reader:
    """Reads events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, query: EventQuery) -> Page:
        """One page.

        Raises:
            InvalidQuery: a filter names no column, or its value is none; the cursor is none.
            StoreUnavailable: the database cannot be reached.
        """
        conditions = await self._conditions(query)
        if conditions is None:
            return Page([], "")
        after = _decoded(query.cursor)
        since, until = query.since, query.until
        if after:
            moment = datetime.fromisoformat(after[0])
            since, until = (moment, until) if query.ascending else (since, _later(moment))
        windows = _FIRST_WINDOW
        while True:
            edge = await self._edge(query, since, until, windows)
            low, high = since, until
            if edge and query.ascending:
                high = min(edge, until) if until else edge
            elif edge:
                low = max(edge, since) if since else edge
            rows = await self._rows(query, conditions, low, high, after)
            if len(rows) > query.limit or edge is None:
                break
            bound = until if query.ascending else since
            if bound and (edge >= bound if query.ascending else edge <= bound):
                break
            windows *= _WINDOW_GROWTH
        more = len(rows) > query.limit
        rows = rows[: query.limit]
        following = _encoded(rows[-1]) if more else ""
        return Page(await self._presented(query.table, rows), following)

    async def _edge(
        self, query: EventQuery, since: datetime | None, until: datetime | None, windows: int
    ) -> datetime | None:
        """How far a page has to look so that it takes in `windows` batches; None: as far as there is anything."""
        if query.ascending:
            begin = since or datetime(1970, 1, 1, tzinfo=UTC)
            found = await self._database.fetch(
                "window_forth", {"stream": query.table.name, "from": begin, "batches": windows}
            )
            edge = found[0]["edge"]
            return _later(edge) if edge and found[0]["count"] >= windows else None
        end = until or datetime(9999, 1, 1, tzinfo=UTC)
        found = await self._database.fetch(
            "window_back", {"stream": query.table.name, "before": end, "batches": windows}
        )
        edge = found[0]["edge"]
        return edge if edge and found[0]["count"] >= windows else None

    async def _rows(
        self,
        query: EventQuery,
        conditions: Sequence[sql.Composable],
        since: datetime | None,
        until: datetime | None,
        after: tuple[str, int, int] | None,
    ) -> list[dict[str, Any]]:
        where = list(conditions)
        if since:
            where.append(sql.SQL("time >= {}").format(sql.Literal(since)))
        if until:
            where.append(sql.SQL("time < {}").format(sql.Literal(until)))
        if after:
            step = sql.SQL(">" if query.ascending else "<")
            place = sql.SQL(", ").join(
                [sql.SQL("{}::timestamptz").format(sql.Literal(after[0])), *map(sql.Literal, after[1:])]
            )
            where.append(sql.SQL("(time, batch, ordinal) {} ({})").format(step, place))
        direction = sql.SQL("ASC" if query.ascending else "DESC")
        order = sql.SQL("time {d}, batch {d}, ordinal {d}").format(d=direction)
        rows = sql.SQL("SELECT * FROM {} WHERE {} ORDER BY {} LIMIT {}").format(
            sql.Identifier("events", query.table.name),
            sql.SQL(" AND ").join(where) if where else sql.SQL("true"),
            order,
            sql.Literal(query.limit + 1),
        )
        columns = [{"name": column.name, "kind": column.kind.value} for column in query.table.columns]
        ordered = sql.SQL("{} ORDER BY e.time {d}, e.batch {d}, e.ordinal {d}").format(
            joined(rows, columns, query.table.of_processes), d=direction
        )
        async with self._database.connection() as connection:
            try:
                return list(await (await connection.execute(ordered)).fetchall())
            except psycopg.errors.QueryCanceled:
                raise InvalidQuery("the query takes too long; narrow it with since, until or pid") from None
            except psycopg.DataError as error:
                raise InvalidQuery(str(error).splitlines()[0]) from None

    async def _conditions(self, query: EventQuery) -> list[sql.Composable] | None:
        """Conditions on the narrow rows; None if nothing can meet them."""
        found: list[sql.Composable] = []
        of_process: dict[str, int] = {}
        for condition in query.filters:
            if condition.column in IN_PROCESS and query.table.of_processes:
                if condition.operator != "eq":
                    raise InvalidQuery(f"{condition.column}: only equality can be asked for")
                of_process[condition.column] = _integer(condition)
                continue
            column = query.table.column(condition.column)
            if column is None and condition.column == "ktime_ns":
                column = StoredColumn("ktime_ns", None, "bigint", None)
            if column is None:
                of_all = IN_PROCESS if query.table.of_processes else ()
                names = ", ".join([*of_all, *(column.name for column in query.table.columns)])
                raise InvalidQuery(f"stream '{query.table.name}' has no column '{condition.column}'; it has: {names}")
            if column.kind is Kind.NAME:
                key = await self._database.fetch("find_name", {"text": condition.value})
                if not key and condition.operator == "eq":
                    return None
                if not key:
                    continue
                found.append(_compared(column, condition, key[0]["id"]))
            else:
                found.append(_compared(column, condition, _value(column, condition)))
        if of_process or query.machines is not None:
            wanted = {"pid": None, "start_ns": None, "machines": query.machines, **of_process}
            processes = [row["id"] for row in await self._database.fetch("find_processes", wanted)]
            if not processes:
                return None
            found.append(sql.SQL("process = ANY({})").format(sql.Literal(processes)))
        return found

    async def _presented(self, table: StreamTable, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        batches = list({row["batch"] for row in rows})
        offsets = {
            row["id"]: row["boot_to_utc_ns"] for row in await self._database.fetch("boot_offsets", {"batches": batches})
        }
        unsigned = [column.name for column in table.columns if column.kind is Kind.UNSIGNED]
        for row in rows:
            row["time"] = _rfc3339(row["ktime_ns"] + offsets[row["batch"]])
            row["task_id"] = str(row["task_id"])
            del row["batch"], row["ordinal"]
            for name in unsigned:
                if row[name] is not None and row[name] < 0:
                    row[name] += 1 << 64
        return rows


def _compared(column: StoredColumn, condition: Filter, value: Any) -> sql.Composed:
    operator = sql.SQL(OPERATORS[condition.operator])
    return sql.SQL("{} {} {}").format(sql.Identifier(column.name), operator, sql.Literal(value))


def _value(column: StoredColumn, condition: Filter) -> Any:
    if column.sql in ("bigint", "integer", "smallint"):
        number = _integer(condition)
        return number - (1 << 64) if column.kind is Kind.UNSIGNED and number >= 1 << 63 else number
    if column.sql == "text":
        return condition.value
    raise InvalidQuery(f"{condition.column}: a column of {column.sql} cannot be filtered by")


def _integer(condition: Filter) -> int:
    try:
        number = int(condition.value)
    except ValueError:
        raise InvalidQuery(f"{condition.column}: {condition.value!r} is not a whole number") from None
    if not -(1 << 63) <= number < 1 << 64:
        raise InvalidQuery(f"{condition.column}: {condition.value} has more than 64 bits")
    return number


def _later(moment: datetime) -> datetime:
    return moment + timedelta(microseconds=1)


def _rfc3339(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _encoded(row: dict[str, Any]) -> str:
    place = json.dumps([row["time"].isoformat(), row["batch"], row["ordinal"]])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[str, int, int] | None:
    if not cursor:
        return None
    try:
        time, batch, ordinal = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        datetime.fromisoformat(time)
        return str(time), int(batch), int(ordinal)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidQuery("cursor: this is none; take `next` of the page before as it is") from None
