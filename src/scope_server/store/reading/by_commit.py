"""Rows in the order in which they were committed: a client that asks repeatedly gets each row once, however late.

A PostgreSQL snapshot tells which transactions are visible. New are the batches whose transaction is visible now, but
was not visible in the snapshot of the page before.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

from psycopg import sql

from scope_server.store.reading.cursor import LAST_ORDINAL, decoded, encoded, is_id
from scope_server.store.reading.database import Connection
from scope_server.store.reading.filters import Conditions, array
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.views import CONTAINER, joined

_MOST_BATCHES = 200  # that one page reads at most
_ENOUGH_ROWS = 50_000  # no further batch is read once the batches have so many rows
_NOTHING = "1:1:"  # a snapshot in which no transaction is visible
_SNAPSHOT = re.compile(r"[0-9]{1,19}:[0-9]{1,19}:([0-9]{1,19}(,[0-9]{1,19})*)?")
_MICROSECOND = timedelta(microseconds=1)
_NOW = "SELECT pg_current_snapshot()::text AS now"
_NEW = """
SELECT b.id, b.xact::text AS xact, b.first_time, b.last_time, b.event_count
FROM store.batches AS b
WHERE stream = %(stream)s AND xact >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
  AND (xact, id) >= (%(xact)s::xid8, %(batch)s)
  AND NOT pg_visible_in_snapshot(xact, %(seen)s::pg_snapshot) AND pg_visible_in_snapshot(xact, %(upto)s::pg_snapshot)
  AND (%(machines)s::integer[] IS NULL OR machine = ANY(%(machines)s))
  AND (%(since)s::timestamptz IS NULL OR last_time >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR first_time < %(until)s)
ORDER BY b.xact, b.id  -- the column, not the text of the result
LIMIT %(most)s"""
_LEFT_OUT = """
SELECT coalesce(sum(event_count), 0)::bigint AS events
FROM store.batches
WHERE stream = %(stream)s AND xact >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
  AND (xact, id) > (%(xact)s::xid8, %(batch)s)
  AND NOT pg_visible_in_snapshot(xact, %(seen)s::pg_snapshot) AND pg_visible_in_snapshot(xact, %(upto)s::pg_snapshot)
  AND (%(machines)s::integer[] IS NULL OR machine = ANY(%(machines)s))"""

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a page ended.

    Attributes:
        seen: a snapshot; all rows that are visible in it were returned, or existed before the first page.
        upto: a later snapshot, if a page ended between the two snapshots; else empty. Of the rows that are visible in
            `upto` and not in `seen`, those up to (`xact`, `batch`, `ordinal`) were returned.
    """

    seen: str
    upto: str = ""
    xact: int = 0
    batch: int = 0
    ordinal: int = -1

    def cursor(self) -> str:
        """The cursor of this place."""
        return encoded([self.seen, self.upto, self.xact, self.batch, self.ordinal])


def age_of(snapshot: str) -> tuple[int, int]:
    """Orders the snapshots of one database: a later one has every transaction that an earlier one has."""
    _, end, running = snapshot.split(":")
    return int(end), -len([number for number in running.split(",") if number])


@dataclass(frozen=True)
class Followed:
    """Rows in their stored form, the place where they end, and whether more rows may be there already.

    Attributes:
        transactions: of the rows' batches, by their ids.
    """

    rows: list[Row]
    place: Place
    more: bool
    transactions: Mapping[int, int]


@dataclass(frozen=True)
class Skipped:
    """The place of now, and how many events were stored since another one."""

    place: Place
    events: int


def is_visible(transaction: int, snapshot: str) -> bool:
    """Whether a snapshot has a transaction's rows, as PostgreSQL's pg_visible_in_snapshot."""
    first, end, running = snapshot.split(":")
    return transaction < int(first) or (transaction < int(end) and str(transaction) not in running.split(","))


def place_of(cursor: str) -> Place:
    """The place of a cursor.

    Raises:
        InvalidQuery: the text is not a cursor.
    """
    return decoded(cursor, _checked)


async def rows_since(
    connection: Connection,
    table: StreamTable,
    wanted: Conditions,
    after: Place | None,
    *,
    since: datetime | None,
    until: datetime | None,
    machines: Sequence[int] | None,
    limit: int,
) -> Followed:
    """The next rows, in the order of their transactions. Call it in a transaction with one snapshot (REPEATABLE READ).

    Args:
        after: the end of the page before. None: the first page, which begins with the rows that are there already if
            `since` is given, and with the rows that are committed from now on otherwise.

    Raises:
        psycopg.Error: the database refused a query.
    """
    now = (await _fetched(connection, _NOW, {}))[0]["now"]
    after = after or Place(_NOTHING if since else now)
    upto = after.upto or now
    asked = {
        "stream": table.name,
        "seen": after.seen,
        "upto": upto,
        "xact": str(after.xact),
        "batch": after.batch,
        "machines": None if machines is None else list(machines),
        "since": since,
        "until": until,
        "most": _MOST_BATCHES,
    }
    batches = await _fetched(connection, _NEW, asked)
    taken = _enough(batches)
    transactions = {one["id"]: int(one["xact"]) for one in taken}
    if not taken:
        return Followed([], Place(upto), upto != now, transactions)
    of_rows, _ = table.layout.within(*(sql.Literal(time) if time else None for time in (since, until)))
    begun = sql.SQL("(batch <> {} OR ordinal > {})").format(sql.Literal(after.batch), sql.Literal(after.ordinal))
    rows = await _fetched(connection, _statement(table, wanted, [*of_rows, begun], taken, limit), {})
    if len(rows) > limit:
        rows = rows[:limit]
        batch, ordinal = rows[-1]["batch"], rows[-1]["ordinal"]
        return Followed(rows, Place(after.seen, upto, transactions[batch], batch, ordinal), True, transactions)
    if len(taken) < len(batches) or len(batches) == _MOST_BATCHES:
        last = taken[-1]
        place = Place(after.seen, upto, transactions[last["id"]], last["id"], LAST_ORDINAL)
        return Followed(rows, place, True, transactions)
    return Followed(rows, Place(upto), upto != now, transactions)


async def skip(connection: Connection, table: StreamTable, after: Place, machines: Sequence[int] | None) -> Skipped:
    """The place of now. The number of events does not regard conditions on rows, and is of whole batches.

    Raises:
        psycopg.Error: the database refused a query.
    """
    now = (await _fetched(connection, _NOW, {}))[0]["now"]
    asked = {
        "stream": table.name,
        "seen": after.seen,
        "xact": str(after.xact),
        "batch": after.batch,
        "machines": None if machines is None else list(machines),
        "upto": now,
    }
    (found,) = await _fetched(connection, _LEFT_OUT, asked)
    return Skipped(Place(now), found["events"])


def _enough(batches: Sequence[Row]) -> list[Row]:
    taken: list[Row] = []
    for batch in batches:
        if sum(one["event_count"] for one in taken) >= _ENOUGH_ROWS:
            break
        taken.append(batch)
    return taken


def _statement(
    table: StreamTable, wanted: Conditions, of_rows: Sequence[sql.Composable], batches: Sequence[Row], limit: int
) -> sql.Composed:
    ids = array([batch["id"] for batch in batches])
    of_spans, of_blocks = table.layout.spans(_spans(batches))
    where = [*wanted.rows, *of_rows, *of_spans, sql.SQL("batch = ANY({})").format(ids)]
    columns = table.records
    found = sql.SQL(
        "SELECT r.*, w.turn FROM ({}) AS r JOIN unnest({}) WITH ORDINALITY AS w (id, turn) ON w.id = r.batch"
        " ORDER BY w.turn, ordinal LIMIT {}"
    ).format(table.layout.places(table.name, columns, where, [*wanted.blocks, *of_blocks]), ids, sql.Literal(limit + 1))
    shown = joined(
        table.layout.rows_at(table.name, columns, sql.Identifier("found"), where),
        columns,
        table.of_processes,
        task=sql.SQL("NULL::text AS task_id, "),
        also=CONTAINER,
    )
    return sql.SQL("WITH found AS MATERIALIZED ({}) {} ORDER BY array_position({}, e.batch), e.ordinal").format(
        found, shown, ids
    )


def _spans(batches: Sequence[Row]) -> list[tuple[datetime, datetime]]:
    """The times of the batches. A late batch, whose time is far from the others, is a span of its own."""
    spans: list[tuple[datetime, datetime]] = []
    for begin, end in sorted((batch["first_time"], batch["last_time"] + _MICROSECOND) for batch in batches):
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    return spans


def _checked(given: Any) -> Place:
    seen, upto, xact, batch, ordinal = given
    if not _is_snapshot(seen) or not (upto == "" or _is_snapshot(upto)) or not is_id(xact) or not is_id(batch):
        raise ValueError
    if type(ordinal) is not int or not -1 <= ordinal <= LAST_ORDINAL:
        raise ValueError
    return Place(seen, upto, xact, batch, ordinal)


def _is_snapshot(text: Any) -> bool:
    # xmin:xmax:xip_list, as PostgreSQL describes pg_snapshot: all increasing, the list between the two.
    if not isinstance(text, str) or not _SNAPSHOT.fullmatch(text):
        return False
    first, end, running = text.split(":")
    between = [int(number) for number in running.split(",") if number]
    ordered = [int(first), *between, int(end)]
    return int(first) > 0 and ordered == sorted(ordered) and len({*between, int(end)}) == len(between) + 1


async def _fetched(connection: Connection, query: LiteralString | sql.Composed, given: Mapping[str, Any]) -> list[Row]:
    return await (await connection.execute(query, given)).fetchall()
