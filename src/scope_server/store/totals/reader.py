"""Answers questions for totals: from rollups, or from a bounded number of rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from scope_server.store.reading.database import Connection, Database
from scope_server.store.reading.filters import conditions
from scope_server.store.reading.reach import newest
from scope_server.store.totals import of_rollups, of_rows
from scope_server.store.totals.question import Question, aligned
from scope_server.store.totals.texts import Key, shown

MOST_ROWS = 2_000_000  # that an answer reads
MOST_HISTOGRAMS = 1_000_000  # the same, of rows whose histograms it adds up: each is as much work as several numbers

Values = dict[str, int | float | None]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """A group's values, and its points with theirs."""

    key: dict[str, Any]
    values: Values
    points: list[tuple[datetime, Values]] = field(default_factory=list)


@dataclass(frozen=True)
class Answered:
    """The top groups.

    Attributes:
        read_since: the groups are of all rows since then.
        complete: this is the begin of the question.
    """

    source: Literal["rollups", "rows"]
    read_since: datetime
    complete: bool
    groups: list[Group]


class Totals:
    """Reads totals."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(self, question: Question) -> Answered:
        """The top groups.

        Raises:
            QueryTooSlow: the query takes too long.
            StoreUnavailable: the database cannot be reached.
        """
        async with self._database.snapshot() as connection:
            if not question.of_rollups:
                return await _of_rows(connection, question)
            await connection.execute(of_rollups.SETTINGS)
            found = await (_seconds if question.within_minutes else _of_rollups)(connection, question)
            return Answered("rollups", question.since, True, found)


async def _of_rows(connection: Connection, question: Question) -> Answered:
    found = await conditions(connection, question.rows)
    most = MOST_HISTOGRAMS if question.of_histograms else MOST_ROWS
    reach = await newest(connection, question.rows, found, most)
    begin = reach.since
    if not reach.complete and question.every_s:  # no step of which a part is missing
        begin = min(aligned(question.since, begin, timedelta(seconds=question.every_s))[1], question.until)
    read = replace(question, rows=replace(question.rows, since=begin))
    if begin >= question.until:
        return Answered("rows", begin, reach.complete, [])
    await connection.execute(of_rows.SETTINGS)
    rows = await (await connection.execute(of_rows.groups(read, found))).fetchall()
    points: defaultdict[int, list[tuple[datetime, Values]]] = defaultdict(list)
    for row in rows:
        if row["time"]:
            points[row["place"]].append((row["time"], _values(question, row)))
    totals = [row for row in rows if not row["time"]]
    return Answered("rows", begin, reach.complete, await _shown(connection, question, totals, points))


async def _of_rollups(connection: Connection, question: Question) -> list[Group]:
    totals = await (await connection.execute(of_rollups.ranking(question))).fetchall()
    points: defaultdict[int, list[tuple[datetime, Values]]] = defaultdict(list)
    if question.every_s and totals:
        places = {_key(question, row): place for place, row in enumerate(totals, 1)}
        for row in await (await connection.execute(of_rollups.series(question, list(places)))).fetchall():
            points[places[_key(question, row)]].append((row["time"], _values(question, row)))
    return await _shown(connection, question, totals, points)


async def _seconds(connection: Connection, question: Question) -> list[Group]:
    rows = await (await connection.execute(of_rollups.by_second(question))).fetchall()
    by_key: defaultdict[Key, list[tuple[datetime, int]]] = defaultdict(list)
    for row in rows:
        by_key[_key(question, row)].append((row["time"], row["count"]))
    counts = {key: sum(count for _, count in points) for key, points in by_key.items()}
    first = sorted(counts, key=lambda key: (-counts[key], key))[: question.top]
    texts = await shown(connection, question, first)
    return [
        Group(
            texts[key],
            _counted(question, counts[key], question.seconds),
            [(time, _counted(question, count, question.every_s or 1)) for time, count in by_key[key]],
        )
        for key in first
    ]


def _counted(question: Question, count: int, seconds: float) -> Values:
    return {cell.text: count if cell.word == "count" else count / seconds for cell in question.cells}


async def _shown(
    connection: Connection,
    question: Question,
    totals: Iterable[Row],
    points: Mapping[int, list[tuple[datetime, Values]]],
) -> list[Group]:
    keyed = [(_key(question, row), row) for row in totals]
    texts = await shown(connection, question, (key for key, _ in keyed))
    return [
        Group(texts[key], _values(question, row), points.get(place, [])) for place, (key, row) in enumerate(keyed, 1)
    ]


def _key(question: Question, row: Row) -> Key:
    return tuple(row[f"k{number}"] for number in range(len(question.by)))


def _values(question: Question, row: Row) -> Values:
    found = {cell.text: row[f"c{number}"] for number, cell in enumerate(question.cells)}
    return {text: int(value) if isinstance(value, Decimal) else value for text, value in found.items()}
