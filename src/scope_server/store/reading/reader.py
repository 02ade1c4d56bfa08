"""Pages of events: composed queries over blocks, joined to text only for the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from psycopg import sql

from scope_server.store.reading import by_commit
from scope_server.store.reading.cursor import LAST_ORDINAL, decoded, encoded, is_id
from scope_server.store.reading.database import Connection, Database
from scope_server.store.reading.filters import Conditions, conditions
from scope_server.store.reading.selection import Selection
from scope_server.store.reading.window import Scope, Window, look
from scope_server.store.schema.columns import Kind, StreamTable
from scope_server.store.schema.views import CONTAINER, joined

MOST_ROWS = 1000
_FIRST_WINDOW = 3  # blocks looked at first; grows until the page is full
_WINDOW_GROWTH = 3
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Place = tuple[datetime, int, int]  # of a row: time, batch, ordinal


class Order(StrEnum):
    """The order of rows: by time, or as they were committed."""

    ASCENDING = "asc"
    DESCENDING = "desc"
    STORED = "stored"


@dataclass(frozen=True)
class EventQuery(Selection):
    """Which events are wanted, in which order, how many, and from where on.

    Attributes:
        cursor: `next` of another page.
    """

    order: Order = Order.DESCENDING
    limit: int = 100
    cursor: str = ""

    @property
    def ascending(self) -> bool:
        """Whether the oldest are first."""
        return self.order is Order.ASCENDING


@dataclass(frozen=True)
class Page:
    """Rows as dicts of JSON's types.

    Attributes:
        next: the cursor of the next page; empty on the last page of an order by time.
        more: whether more rows may be there already.
    """

    events: list[dict[str, Any]]
    next: str
    more: bool


@dataclass(frozen=True)
class Followed:
    """Rows as dicts of JSON's types, in the order of their commits.

    Attributes:
        transactions: of each row.
        place: where they end.
        more: whether more rows may be there already.
    """

    rows: list[dict[str, Any]]
    transactions: Sequence[int]
    place: by_commit.Place
    more: bool


class Reader:
    """Reads events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, query: EventQuery) -> Page:
        """One page.

        Raises:
            InvalidQuery: the cursor is none.
            QueryTooSlow: it takes too long.
            StoreUnavailable: the database cannot be reached.
        """
        if query.order is Order.STORED:
            found = await self.follow(query, by_commit.place_of(query.cursor) if query.cursor else None)
            return Page(found.rows, found.place.cursor(), found.more)
        async with self._database.snapshot() as connection:
            page = await _by_time(connection, query)
        return Page(await self.presented(query.table, page.events), page.next, page.more)

    async def follow(self, query: EventQuery, after: by_commit.Place | None) -> Followed:
        """The next rows in the order of their commits, see `rows_since`.

        Raises:
            QueryTooSlow: it takes too long.
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.snapshot() as connection:
            wanted = await conditions(connection, query)
            found = await by_commit.rows_since(
                connection,
                query.table,
                wanted,
                after,
                since=query.since,
                until=query.until,
                machines=query.machines,
                limit=query.limit,
            )
        transactions = [found.transactions[row["batch"]] for row in found.rows]
        return Followed(await self.presented(query.table, found.rows), transactions, found.place, found.more)

    async def skip(self, query: EventQuery, after: by_commit.Place) -> by_commit.Skipped:
        """The place of now, see `by_commit.skip`.

        Raises:
            QueryTooSlow: it takes too long.
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.snapshot() as connection:
            return await by_commit.skip(connection, query.table, after, query.machines)

    async def presented(self, table: StreamTable, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows that were read with their texts, as people get them: changed in place.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        if not rows:
            return rows
        where = {"batches": list({row["batch"] for row in rows}), "since": min(row["time"] for row in rows)}
        tasks = {row["id"]: row["task_id"] for row in await self._database.fetch("tasks_of_batches", where)}
        unsigned = [column.name for column in table.columns if column.kind is Kind.UNSIGNED]
        for row in rows:
            micros = (row["time"] - _EPOCH) // _MICROSECOND
            row["time"] = _rfc3339(micros * 1000 + row["ktime_ns"] % 1000)
            row["task_id"] = tasks.get(row["batch"])
            del row["batch"], row["ordinal"]
            for name in unsigned:
                if row[name] is not None and row[name] < 0:
                    row[name] += 1 << 64
        return rows


async def _by_time(connection: Connection, query: EventQuery) -> Page:
    after = decoded(query.cursor, _place) if query.cursor else None
    wanted = await conditions(connection, query)
    rows = await _rows(connection, query, wanted, after)
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    last = rows[-1] if more else None
    following = encoded([last["time"].isoformat(), last["batch"], last["ordinal"]]) if last else ""
    return Page(rows, following, more)


async def _rows(
    connection: Connection, query: EventQuery, wanted: Conditions, after: Place | None
) -> list[dict[str, Any]]:
    """The first rows of the query, one more than its limit if there are so many."""
    since, until = query.since, query.until
    if after and query.ascending:
        since = max(after[0], since) if since else after[0]
    elif after:
        until = min(after[0] + _MICROSECOND, until) if until else after[0] + _MICROSECOND
    scope = Scope(query.table, wanted.blocks, since, until, query.ascending)
    blocks = _FIRST_WINDOW
    while True:
        window = await look(connection, scope, blocks)
        rows = await (await connection.execute(_statement(query, wanted, window, after))).fetchall()
        if len(rows) > query.limit or window.whole:
            return rows
        blocks *= _WINDOW_GROWTH


def _statement(query: EventQuery, wanted: Conditions, window: Window, after: Place | None) -> sql.Composed:
    layout = query.table.layout
    of_rows, of_blocks = layout.within(*(sql.Literal(time) if time else None for time in (window.since, window.until)))
    where = [*wanted.rows, *of_rows]
    if after:
        step = sql.SQL(">" if query.ascending else "<")
        place = sql.SQL(", ").join(map(sql.Literal, after))
        where.append(sql.SQL("(time, batch, ordinal) {} ({})").format(step, place))
    columns = query.table.records
    direction = sql.SQL("ASC" if query.ascending else "DESC")
    found = sql.SQL("SELECT * FROM ({}) AS r ORDER BY time {d}, batch {d}, ordinal {d} LIMIT {}").format(
        layout.places(query.table.name, columns, where, [*wanted.blocks, *of_blocks]),
        sql.Literal(query.limit + 1),
        d=direction,
    )
    first = layout.rows_at(query.table.name, columns, sql.Identifier("found"), where)
    return sql.SQL("WITH found AS MATERIALIZED ({}) {} ORDER BY e.time {d}, e.batch {d}, e.ordinal {d}").format(
        found,
        joined(first, columns, query.table.of_processes, task=sql.SQL("NULL::text AS task_id, "), also=CONTAINER),
        d=direction,
    )


def _rfc3339(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _place(given: Any) -> Place:
    time, batch, ordinal = given
    moment = datetime.fromisoformat(time).astimezone(UTC)
    moment + _MICROSECOND  # of the last year it cannot be told
    if not is_id(batch) or not is_id(ordinal) or ordinal > LAST_ORDINAL:
        raise ValueError
    return moment, batch, ordinal
